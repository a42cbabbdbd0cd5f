"""Models that were trained elsewhere: the probabilities of the originals, and the classes of the data set."""

import pickle
import sys

import numpy as np
import onnx
import pytest
import skl2onnx
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.tables.features import Feature, Schema
from payoff.errors import Invalid, MissingPackage
from payoff.learners.imported import (
    OnnxScorer,
    check_alone,
    class_order,
    load_onnx,
    rounded_columns,
)
from tests.messages import says

N = 200
RNG = np.random.default_rng(0)
WORDS = ("mild", "none", "strong")
SCHEMA = Schema(
    [Feature("age", "numeric"), Feature("pain level", "categorical", WORDS)]
)
NUMBERS = Schema([Feature("age", "numeric"), Feature("pulse", "numeric")])
CLASSES = ("healthy", "ill")

codes = RNG.integers(0, 3, N).astype(float)
X = (
    np.column_stack((RNG.normal(50, 10, N), codes))
    .astype(np.float32)
    .astype(np.float64)
)
y = np.where(
    RNG.random(N) < 1 / (1 + np.exp(-(X[:, 0] - 50) / 8 - codes + 1)), "ill", "healthy"
)


def converted(model: object, *, zipmap: bool = True, width: int | None = 2) -> bytes:
    options = {id(model): {"zipmap": zipmap}}
    types = [("X", FloatTensorType([None, width]))]
    return skl2onnx.to_onnx(
        model, initial_types=types, options=options
    ).SerializeToString()


MODELS = {
    "linear": lambda: LogisticRegression().fit(X, y),
    "forest": lambda: RandomForestClassifier(10, max_depth=5, random_state=0).fit(X, y),
    "three classes": lambda: LogisticRegression().fit(
        X, np.where(codes == 1, "dead", y)
    ),
}


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_the_probabilities_are_those_of_the_original(name, zipmap):
    """Within 1e-6, in the order of the data set's classes, also after a round trip through a pickle."""
    model = MODELS[name]()
    classes, names = (
        tuple(reversed(model.classes_.tolist())),
        None if zipmap else model.classes_.tolist(),
    )

    found = pickle.loads(
        pickle.dumps(
            load_onnx(converted(model, zipmap=zipmap), NUMBERS, classes, names)
        )
    )

    np.testing.assert_allclose(
        found.posterior(X), model.predict_proba(X)[:, ::-1], rtol=0, atol=1e-6
    )


def test_an_input_for_each_column_is_found_by_its_name():
    """Words and numbers, in another order than the data set's."""
    rows = np.column_stack((np.array(WORDS, dtype=object)[codes.astype(int)], X[:, 0]))
    steps = ColumnTransformer(
        [("words", OneHotEncoder(), [0]), ("numbers", StandardScaler(), [1])]
    )
    model = make_pipeline(steps, LogisticRegression()).fit(rows, y)
    types = [
        ("pain_level", StringTensorType([None, 1])),
        ("age", FloatTensorType([None, 1])),
    ]
    content = skl2onnx.to_onnx(model, initial_types=types).SerializeToString()

    found = load_onnx(content, SCHEMA, CLASSES, None)

    np.testing.assert_allclose(
        found.posterior(X), model.predict_proba(rows), rtol=0, atol=1e-6
    )
    with pytest.raises(ValueError, match="missing"):
        found.posterior(np.array([[50.0, np.nan]]))


def net() -> bytes:
    """A network of one layer without labels: a probability of the second class."""
    weights = onnx.numpy_helper.from_array(
        np.array([[0.1], [0.2]], dtype=np.float32), "W"
    )
    nodes = [
        onnx.helper.make_node("MatMul", ["X", "W"], ["Z"]),
        onnx.helper.make_node("Sigmoid", ["Z"], ["P"]),
    ]
    given, made = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, width])
        for name, width in (("X", 2), ("P", 1))
    )
    graph = onnx.helper.make_graph(nodes, "net", [given], [made], [weights])
    content: bytes = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9
    ).SerializeToString()
    return content


def test_names_for_the_classes_of_integers_or_of_a_network_without_labels():
    """Libraries that number their classes, or do not name them: the names come with the order."""
    model = LogisticRegression().fit(X, (y == "ill").astype(int))
    content = converted(model, zipmap=False)

    found = load_onnx(content, NUMBERS, CLASSES, ["healthy", "ill"])
    swapped = load_onnx(content, NUMBERS, CLASSES, ["ill", "healthy"])
    network = load_onnx(net(), NUMBERS, CLASSES, list(CLASSES))

    np.testing.assert_allclose(
        found.posterior(X), model.predict_proba(X), rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(swapped.posterior(X), found.posterior(X)[:, ::-1])
    np.testing.assert_allclose(
        network.posterior(X)[:, 1], 1 / (1 + np.exp(-X @ [0.1, 0.2])), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(
    ("content", "names", "place", "named"),
    [
        (net, None, "/classes", ["does not name its classes"]),
        (
            lambda: converted(LogisticRegression().fit(X, (y == "ill").astype(int))),
            None,
            "/dataset",
            ["0, 1"],
        ),
        (
            lambda: converted(MODELS["linear"](), zipmap=False),
            ["healthy", "sick"],
            "/classes",
            ["sick"],
        ),
        (
            lambda: converted(LogisticRegression().fit(X[:, [0, 1, 1]], y), width=3),
            None,
            "/dataset",
            ["3", "2"],
        ),
        (lambda: converted(MODELS["three classes"]()), None, "/dataset", ["dead"]),
    ],
)
def test_what_does_not_fit_the_data_set_is_named(content, names, place, named):
    with pytest.raises(Invalid) as caught:
        load_onnx(content(), NUMBERS, CLASSES, names)
    assert says(place, *named) in caught.value.flaws


def test_integers_are_taken_as_integers():
    whole = np.round(X)
    model = LogisticRegression().fit(whole, y)
    content = skl2onnx.to_onnx(
        model, initial_types=[("X", Int64TensorType([None, 2]))]
    ).SerializeToString()

    found = load_onnx(content, NUMBERS, CLASSES, None)

    np.testing.assert_allclose(
        found.posterior(whole), model.predict_proba(whole), rtol=0, atol=1e-6
    )
    with pytest.raises(ValueError, match="integer"):
        found.posterior(np.array([[0.5, 1.0]]))


def test_without_the_extra_the_error_names_it(monkeypatch):
    scorer = load_onnx(converted(MODELS["linear"]()), NUMBERS, CLASSES, None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    with pytest.raises(MissingPackage) as caught:
        OnnxScorer(columns=scorer.columns, content=scorer.content).posterior(X)
    assert "pip install onnxruntime" in caught.value.detail


@pytest.mark.parametrize(
    ("names", "classes", "expected"),
    [
        ([False, True], ("False", "True"), None),
        ([False, True], ("true", "false"), [1, 0]),
        (np.array([False, True]), (0, 1), None),
        (np.array([1.0, 2.0]), (2, 1), [1, 0]),
        (["0", "1"], (0, 1), None),
        (["A", "a"], ("a", "A"), [1, 0]),
    ],
)
def test_classes_that_are_equal_or_written_alike_are_one(names, classes, expected):
    order = class_order(names, classes)
    assert (None if order is None else order.tolist()) == expected


def by_batch() -> bytes:
    """A network that standardises its rows by their mean, as one exported in training mode does."""
    nodes = [
        onnx.helper.make_node("ReduceMean", ["X"], ["M"], axes=[0], keepdims=1),
        onnx.helper.make_node("Sub", ["X", "M"], ["C"]),
        onnx.helper.make_node("ReduceMean", ["C"], ["Z"], axes=[1], keepdims=1),
        onnx.helper.make_node("Sigmoid", ["Z"], ["P"]),
    ]
    given, made = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, width])
        for name, width in (("X", 2), ("P", 1))
    )
    graph = onnx.helper.make_graph(nodes, "by batch", [given], [made])
    content: bytes = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9
    ).SerializeToString()
    return content


def test_a_row_alone_equals_itself_among_others():
    ordinary = load_onnx(net(), NUMBERS, CLASSES, list(CLASSES))
    by_others = load_onnx(by_batch(), NUMBERS, CLASSES, list(CLASSES))

    check_alone(ordinary, X, ordinary.answers(X))
    with pytest.raises(Invalid) as caught:
        check_alone(by_others, X, by_others.answers(X))

    assert (
        says("/file", "row 0 depends on the other rows", "evaluation mode")
        in caught.value.flaws
    )


SECONDS = 1.7e9 + np.floor(RNG.random(N) * 1.6e7)
STAY = np.floor(RNG.exponential(300, N))


@pytest.mark.parametrize(
    ("columns", "tensor", "rounded"),
    [
        ((SECONDS, SECONDS + STAY), FloatTensorType, [0, 1]),
        ((SECONDS, SECONDS + STAY), DoubleTensorType, []),
        ((SECONDS - 1.7e9, SECONDS - 1.7e9 + STAY), FloatTensorType, []),
        ((RNG.normal(size=N), STAY), FloatTensorType, []),
    ],
    ids=["single", "double", "with an offset", "small numbers"],
)
def test_numbers_that_single_precision_rounds_so_that_it_decides(
    columns, tensor, rounded
):
    """A stay of minutes between two times in Unix seconds, which single precision rounds by up to 64."""
    rows = np.column_stack(columns)
    model = LogisticRegression(C=1e9, max_iter=10_000).fit(
        rows, np.where(STAY > 200, "ill", "healthy")
    )
    types, options = [("X", tensor([None, 2]))], {id(model): {"zipmap": False}}
    file = skl2onnx.to_onnx(model, initial_types=types, options=options)
    scorer = load_onnx(file.SerializeToString(), NUMBERS, CLASSES, list(CLASSES))

    found, share = rounded_columns(scorer, rows)

    assert found.tolist() == rounded
    assert (share > 0.1) == bool(rounded)
