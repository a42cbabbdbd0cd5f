"""Models of scikit-learn from skops files: the same probabilities, and nothing that is not on the safe list."""

from __future__ import annotations

import io
import pickle
import zipfile

import joblib
import numpy as np
import pyarrow as pa
import pytest
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Bunch

from app.errors import Invalid
from app.features import Feature, Schema
from app.learners.imported.estimator import Imported
from app.learners.imported.sklearn_model import load_joblib, load_skops, scorer
from tests.messages import says

N = 300
MB = 2**20
RNG = np.random.default_rng(0)
WORDS = ("mild", "none", "strong")
SCHEMA = Schema([Feature("age", "numeric"), Feature("pain", "categorical", WORDS), Feature("pulse", "numeric")])
SCHEMA_OF_NUMBERS = Schema([Feature(name, "numeric") for name in ("age", "pain", "pulse")])
NUMBERS = Schema([Feature("age", "numeric"), Feature("pulse", "numeric")])
CLASSES = ("healthy", "ill")

codes = RNG.integers(0, 3, N)
X = np.column_stack((RNG.normal(50, 10, N), codes, RNG.normal(70, 9, N)))
y = np.where(RNG.random(N) < 1 / (1 + np.exp(-(X[:, 0] - 50) / 8 - codes + 1)), "ill", "healthy")
Z = X[:, [0, 2]]
FRAME = pa.table({"pulse": X[:, 2], "age": X[:, 0], "pain": np.array(WORDS)[codes]})  # in another order


def skops_file(model: object) -> bytes:
    return skops.io.dumps(model)


def read(content: bytes, **options: object) -> object:
    return load_skops(content, 100 * MB, **{"version_skew": False} | options)


def by_columns(last: object) -> object:
    """A pipeline that selects its columns by name, fitted."""
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    chosen = make_column_transformer((StandardScaler(), ["pulse", "age"]), (words, ["pain"]))
    return make_pipeline(chosen, last).fit(FRAME, y)


ON_FRAMES = {
    "linear": lambda: by_columns(LogisticRegression()),
    "forest": lambda: by_columns(RandomForestClassifier(20, random_state=0, n_jobs=2)),
    "boosting": lambda: by_columns(HistGradientBoostingClassifier(max_iter=5)),
    "calibrated": lambda: by_columns(CalibratedClassifierCV(DecisionTreeClassifier(max_depth=4), cv=2)),
}


@pytest.mark.parametrize("name", ON_FRAMES)
def test_a_pipeline_on_named_columns_answers_as_it_did(name):
    """Columns in another order, words and numbers: the same probabilities within 1e-12."""
    model = ON_FRAMES[name]()
    expected = model.predict_proba(FRAME)

    answered = scorer(read(skops_file(model)), SCHEMA, CLASSES).posterior(X)

    np.testing.assert_allclose(answered, expected, rtol=0, atol=1e-12)


def test_a_model_on_an_array_takes_the_columns_in_their_order_and_the_classes_in_ours():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(Z, y)

    answered = scorer(read(skops_file(model)), NUMBERS, ("ill", "healthy")).posterior(Z)

    np.testing.assert_allclose(answered, model.predict_proba(Z)[:, ::-1], rtol=0, atol=1e-12)


def test_a_pickle_with_another_name_is_no_skops_file():
    with pytest.raises(Invalid) as caught:
        read(pickle.dumps(LogisticRegression().fit(X, y)))
    assert says("/file", "skops", "ZIP") in caught.value.flaws


def test_a_truncated_file_is_refused():
    content = skops_file(LogisticRegression().fit(X, y))

    for size in (0, 10, len(content) // 2, len(content) - 1):
        with pytest.raises(Invalid):
            read(content[:size])


def test_untrusted_types_are_named():
    """What the file would run is named, and is not built."""
    model = make_pipeline(FunctionTransformer(skops_file), LogisticRegression())

    with pytest.raises(Invalid) as caught:
        read(skops_file(model))
    assert says("/file", "skops_file") in caught.value.flaws
    assert "TreePredictor" not in caught.value.detail


def test_a_file_that_unpacks_to_more_than_allowed_is_refused_before_it_is_unpacked():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 20 * MB)

    with pytest.raises(Invalid) as caught:
        load_skops(file.getvalue(), MB, version_skew=False)
    assert says("/file", "20,971,520", "1,048,576") in caught.value.flaws


@pytest.mark.parametrize(
    ("model", "schema", "classes", "place", "named"),
    [
        (lambda: LogisticRegression().fit(FRAME.drop(["pain"]), y), SCHEMA, CLASSES, "/dataset", ["pain", "columns"]),
        (lambda: by_columns(LogisticRegression()), NUMBERS, CLASSES, "/dataset", ["pain", "columns"]),
        (lambda: LogisticRegression().fit(X, y), NUMBERS, CLASSES, "/dataset", ["3", "2"]),
        (lambda: LogisticRegression().fit(X, y), SCHEMA, ("healthy", "sick"), "/dataset", ["ill", "sick"]),
        (lambda: LogisticRegression().fit(X, y), SCHEMA, ("healthy", "ill", "dead"), "/dataset", ["dead"]),
        (lambda: LogisticRegression().fit(X, (y == "ill").astype(int)), SCHEMA, ("0", "1"), "/dataset", ["1", "'1'"]),
        (lambda: LinearRegression().fit(X, y == "ill"), SCHEMA, CLASSES, "/file", ["LinearRegression"]),
        (LogisticRegression, SCHEMA, CLASSES, "/file", ["fitted"]),
        (lambda: {"a": 1}, SCHEMA, CLASSES, "/file", ["dict"]),
    ],
)
def test_what_does_not_fit_the_data_set_is_named(model, schema, classes, place, named):
    with pytest.raises(Invalid) as caught:
        scorer(read(skops_file(model())), schema, classes)
    assert says(place, *named) in caught.value.flaws


def test_a_model_of_another_version_is_refused_unless_skew_is_allowed(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("sklearn.base.__version__", "1.2.3")
        content = skops_file(LogisticRegression().fit(X, y))

    with pytest.raises(Invalid) as caught:
        read(content)
    assert says("/file", "1.2.3", "PAYOFF_ALLOW_VERSION_SKEW") in caught.value.flaws
    assert read(content, version_skew=True).classes_.tolist() == list(CLASSES)


def damaged_forest() -> object:
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    forest.estimators_[1].tree_.children_left[0] = 10**6
    return forest


def damaged_boosting() -> object:
    boosting = HistGradientBoostingClassifier(max_iter=2).fit(X, y)
    boosting._predictors[0][0].nodes["left"][0] = 10**6
    return boosting


def on_column(step: object) -> object:
    """A pipeline whose first step is `step`, not fitted."""
    return make_pipeline(make_column_transformer((step, [0])), LogisticRegression())


def disguised() -> object:
    """Its name is an attribute, which files set."""
    vectorizer = CountVectorizer(input="filename")
    vectorizer.__qualname__, vectorizer.__module__ = "PCA", "sklearn.decomposition"
    return on_column(vectorizer)


def hidden(where: str) -> object:
    """In an attribute that no parameter names."""
    model = LogisticRegression().fit(X, y)
    vectorizer = CountVectorizer(input="filename")
    model.extra_ = {
        "a list": [[vectorizer]],
        "an array": np.array([vectorizer, None], dtype=object),
        "a bunch": Bunch(one=vectorizer),
    }[where]
    return model


def stacked() -> object:
    model = StackingClassifier([("a", LogisticRegression())]).fit(X, y)
    model.stack_method_ = ["fit"]
    return model


UNSAFE = {
    "a vectorizer, which opens files": (lambda: on_column(CountVectorizer(input="filename")), "CountVectorizer"),
    "a regular expression": (lambda: on_column(TfidfVectorizer(token_pattern="(a+)+$")), "TfidfVectorizer"),
    "one with another name": (disguised, "CountVectorizer"),
    "in a list": (lambda: hidden("a list"), "CountVectorizer"),
    "in an array": (lambda: hidden("an array"), "CountVectorizer"),
    "in a bunch": (lambda: hidden("a bunch"), "CountVectorizer"),
    "a function of numpy": (lambda: on_column(FunctionTransformer(np.exp)), "FunctionTransformer"),
    "a kernel": (lambda: SVC(kernel=np.add), "numpy.ufunc"),
    "sizes that compiled code trusts": (SVC, "sklearn.svm.SVC"),
    "a method of a step": (stacked, "StackingClassifier"),
    "neighbours": (KNeighborsClassifier, "KNeighborsClassifier"),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_what_runs_code_or_reads_files_when_it_predicts_is_refused(name):
    """Skops trusts all of them, as none runs code while it is loaded."""
    model, named = UNSAFE[name]

    with pytest.raises(Invalid) as caught:
        read(skops_file(model()))
    assert says("/file", named, "docs/how-to/import-a-model.md") in caught.value.flaws


ALLOWED = {
    "boosting": lambda: GradientBoostingClassifier(n_estimators=2),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=2),
    "ada": lambda: AdaBoostClassifier(n_estimators=2),
    "bagging": lambda: BaggingClassifier(n_estimators=2),
    "network": lambda: MLPClassifier(2, max_iter=2, tol=10),
    "vectors": lambda: CalibratedClassifierCV(LinearSVC(), cv=2),
    "isotonic": lambda: CalibratedClassifierCV(SGDClassifier(), method="isotonic", cv=StratifiedKFold(2)),
    "naive Bayes": GaussianNB,
    "discriminants": QuadraticDiscriminantAnalysis,
    "one against the rest": lambda: OneVsRestClassifier(LogisticRegression()),
    "votes": lambda: VotingClassifier([("a", LogisticRegression()), ("b", DecisionTreeClassifier())], voting="soft"),
    "selection": lambda: make_pipeline(SelectKBest(f_classif, k=2), PowerTransformer(), LogisticRegression()),
    "encoders": lambda: make_pipeline(
        make_column_transformer(
            (TargetEncoder(cv=2), [1]),
            (KBinsDiscretizer(2, quantile_method="averaged_inverted_cdf"), [0]),
            remainder="passthrough",
        ),
        LogisticRegression(),
    ),
    "features": lambda: make_pipeline(
        make_union(PolynomialFeatures(2), PCA(1), QuantileTransformer(n_quantiles=10)),
        MinMaxScaler(),
        LogisticRegression(),
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ALLOWED)
def test_the_usual_classifiers_and_transformers_are_allowed(name):
    model = ALLOWED[name]().fit(X, y)

    answered = scorer(read(skops_file(model)), SCHEMA_OF_NUMBERS, CLASSES).posterior(X)

    np.testing.assert_allclose(answered, model.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("damaged", [damaged_forest, damaged_boosting])
def test_trees_that_lead_out_of_their_arrays_are_refused(damaged):
    """Compiled code would read memory that is not theirs."""
    model = read(skops_file(damaged()))

    with pytest.raises(Invalid) as caught:
        scorer(model, SCHEMA, CLASSES)
    assert says("/file", "tree", "damaged") in caught.value.flaws


def test_a_pickle_is_loaded_as_the_object_it_is():
    file = io.BytesIO()
    joblib.dump(LogisticRegression().fit(X, y), file)

    assert load_joblib(file.getvalue(), version_skew=False).classes_.tolist() == list(CLASSES)
    with pytest.raises(Invalid):
        load_joblib(b"not a pickle", version_skew=False)


def estimator(model: object) -> Imported:
    """Of the columns that the model was fitted on: an array of numbers, or the frame."""
    if hasattr(model, "feature_names_in_"):
        return Imported(scorer(model, SCHEMA, CLASSES), 2, X[:1], {})
    return Imported(scorer(model, NUMBERS, CLASSES), 2, Z[:1], {})


def test_values_that_the_model_refuses_have_no_probabilities_and_spoil_no_other_row():
    """Linear models refuse missing numbers; the pipeline imputes missing words."""
    model = by_columns(LogisticRegression())
    rows = X[:10].copy()
    rows[3, 0] = rows[4, 2] = np.nan
    rows[6, 1] = np.nan
    expected = model.predict_proba(FRAME)[:10]

    found = estimator(model)
    P = found.posterior(rows)

    assert found.takes_missing.tolist() == [False, True, False]
    assert np.isnan(P[[3, 4]]).all()
    rest = [0, 1, 2, 5, 7, 8, 9]
    np.testing.assert_allclose(P[rest], expected[rest], rtol=0, atol=1e-12)
    assert np.isfinite(P[6]).all()


def test_infinite_numbers_have_no_probabilities_either():
    rows = Z[:3].copy()
    rows[1, 0] = 1e300  # beyond the numbers of a tree

    P = estimator(RandomForestClassifier(3, random_state=0).fit(Z, y)).posterior(rows)

    assert np.isnan(P).any(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_a_calibration_is_evaluated_on_rows_that_it_did_not_see(method):
    found = estimator(DecisionTreeClassifier(random_state=0).fit(Z[:150], y[:150]))
    truth = np.searchsorted(CLASSES, y)
    raw = found.raw(Z)

    apart = found.calibrate(method, raw, truth, seed=0)

    assert apart.shape == raw.shape
    assert not np.allclose(apart, found.posterior(Z))
    loss = [-np.log(np.clip(P[150:][np.arange(150), truth[150:]], 1e-9, 1)).mean() for P in (raw, apart)]
    assert loss[1] < loss[0] / 2


def test_it_can_be_stored_and_loaded():
    found = estimator(by_columns(RandomForestClassifier(3, random_state=0)))
    file = io.BytesIO()
    joblib.dump(found, file)
    file.seek(0)

    np.testing.assert_array_equal(joblib.load(file).posterior(X), found.posterior(X))


def test_models_of_models_on_named_columns():
    """They keep what they were made from, which is not fitted, and containers of their own."""
    parts = [("a", by_columns(LogisticRegression())), ("b", by_columns(RandomForestClassifier(3, random_state=0)))]
    model = StackingClassifier(parts, cv="prefit").fit(FRAME, y)

    answered = scorer(read(skops_file(model)), SCHEMA, CLASSES).posterior(X)

    np.testing.assert_allclose(answered, model.predict_proba(FRAME), rtol=0, atol=1e-12)
