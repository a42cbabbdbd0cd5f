"""What all learners do alike, over the catalogue: scikit-learn's conventions, weights, refusals, refits, progress."""

import io
import pickle

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import decide, row_benefits
from payoff.errors import Invalid
from payoff.learners.catalogue import KINDS as ALL_KINDS
from payoff.learners.catalogue import resolve
from payoff.learners.parameters import request_of
from payoff.progress import listen
from payoff.stored import Stored
from tests.reference.stepwise import simulate
from tests.reference.tables import SMALL, drawn, mixed

# `rewards` needs the action of each row: it has tests of its own.
KINDS = {name: kind for name, kind in ALL_KINDS.items() if kind.labels != "reward"}
CLASSIFIERS = [
    name
    for name, kind in KINDS.items()
    if kind.labels == "one" and "classification" in kind.tasks
]
SEVERAL = [name for name, kind in KINDS.items() if kind.labels == "several"]
KINDS_AND_TASKS = [(kind.name, task) for kind in KINDS.values() for task in kind.tasks]
KINDS_AND_TASKS.append(("multilabel_logistic", "chain"))
AT_RANDOM = (
    "budget_forest",
    "cost_tree",
    "forest_chain",
    "gradient_boosting",
    "linear",
    "multilabel_forest",
    "random_forest",
)


class _Reader(pickle.Unpickler):
    """Notes the classes of the library that a pickle names."""

    def __init__(self, content):
        super().__init__(content)
        self.ours = set()

    def find_class(self, module, name):
        found = super().find_class(module, name)
        if module.startswith("payoff.") and isinstance(found, type):
            self.ours.add(found)
        return found


def made(name, /, **options):
    return KINDS[name](**options)


LINEAR, TREE = made("kernel_logistic", kernel="linear"), {"trade_off": 0.01, "depth": 1}
VARIANTS = {
    "auto": [{"max_seconds": 1e-9}],
    "budget_forest": [{"n_estimators": 3}, {"alpha": 0, "n_estimators": 5}],
    "cost_naive_bayes": [{}, {"calibration": "none"}, {"calibration": "isotonic"}],
    "cost_tree": [
        TREE,
        TREE | {"depth": 2, "task": "regression"},
        TREE | {"features": "boosted", "weak_learners": 3},
    ],
    "forest_chain": [{"n_estimators": 4, "steps": 3}],
    "gradient_boosting": [
        {"max_iter": 4, "calibration": "none"},
        {"max_iter": 4, "calibration": "isotonic"},
        {"max_iter": 20, "task": "regression"},
    ],
    "hierarchical_logistic": [
        {},
        {"first": made("benefit_logistic"), "second": made("logistic")},
        {"first": LINEAR, "second": made("kernel_logistic")},
    ],
    "kernel_logistic": [{"kernel": name} for name in ("rbf", "linear", "polynomial")],
    "logistic": [{}, {"calibration": "sigmoid"}, {"calibration": "isotonic"}],
    "multilabel_forest": [{"n_estimators": 5}],
    "multilabel_logistic": [{}, {"chain": True}],
    "random_forest": [
        {"n_estimators": 5},
        {"n_estimators": 5, "calibration": "sigmoid"},
        {"n_estimators": 5, "task": "regression"},
    ],
}
LEARNERS = [
    made(name, **options) for name in KINDS for options in VARIANTS.get(name, [{}])
]

DRAWN = "rows are drawn, or dealt into folds, at random: a row of weight 2 and the row twice are not drawn alike"
TOLERANCE = "the check compares to 1e-7, relative, what fits find that stop at gradients of 1e-6"
ONE_COLUMN = "the check trains on classes; this estimator takes an indicator of 0 and 1, a column per label"
EXEMPT = dict.fromkeys(
    (
        "check_estimators_dtypes",
        "check_sample_weights_not_an_array",
        "check_sample_weights_pandas_series",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_fit2d_1feature",
    ),
    ONE_COLUMN,
) | {
    "check_classifiers_one_label": "a label that is the same in every row is defined here: it has a probability",
    "check_classifiers_one_label_sample_weights": "the same, after rows without weight are left out",
    "check_classifier_not_supporting_multiclass": ONE_COLUMN
    + "; what it refuses is the form, not the number of classes",
}


def exempt(estimator: BaseEstimator) -> dict[str, str]:
    """Checks that an estimator cannot pass, each with its reason."""
    found = dict(EXEMPT) if estimator.labels == "several" else {}
    calibrated = estimator.calibration in ("isotonic", "sigmoid")
    kernel = estimator.name == "kernel_logistic" and estimator.kernel != "rbf"
    stages = estimator.name == "hierarchical_logistic" and estimator.first is LINEAR
    if calibrated or estimator.name in AT_RANDOM:
        found["check_sample_weight_equivalence_on_dense_data"] = DRAWN
    elif kernel or stages:
        found["check_sample_weight_equivalence_on_dense_data"] = TOLERANCE
    return found


@pytest.mark.slow
@pytest.mark.sampled
@parametrize_with_checks(LEARNERS, expected_failed_checks=exempt)
def test_scikit_learns_checks(estimator, check):
    """Each of them passes, or is exempted with a reason."""
    check(estimator)


def learner(name, task="classification", K=3, n=240):
    """A learner of this kind, not fitted, with a table for it."""
    options = (
        {"chain": True}
        if task == "chain"
        else {"task": task}
        if len(KINDS[name].tasks) > 1
        else {}
    )
    asked = resolve({"kind": name} | SMALL.get(name, {}) | options)
    kind = asked.estimator
    X, y, categorical = (
        (*drawn(n), (3,)) if kind.labels == "several" else mixed(n, K, 0)
    )
    if task == "regression":
        y = np.nan_to_num(X[:, 1]) + y
    classes = list(range(K)) if kind.labels == "one" and task != "regression" else None
    model = asked.build(
        categorical_features=list(categorical),
        benefits=np.eye(K),
        classes=classes,
        random_state=0,
    )
    return model, X, y


def answers(model, X):
    if not model.regresses:
        return model.posterior(X)
    distribution = model.distribution(X)
    return np.column_stack(
        (
            model.values(X),
            *([] if distribution is None else distribution.quantiles([0.1, 0.9]).T),
        )
    )


@pytest.mark.parametrize(("name", "task"), KINDS_AND_TASKS)
@pytest.mark.sampled
def test_mixed_tables_with_missing_values_are_answered(name, task):
    """`fit` returns the learner; no answer depends on other rows, on pickling, or on anything but the seed."""
    model, X, y = learner(name, task)
    heard = []
    with listen(lambda fraction, _: heard.append(fraction)):
        assert model.fit(X, y) is model
    assert heard == sorted(heard) or name in (
        "auto",
        "forest_chain",
        "budget_forest",
    )  # pieces of work in parallel
    assert (
        not heard or heard[-1] == pytest.approx(1.0) or name == "cost_tree"
    )  # whose cycles end where nothing moves

    new = (
        drawn if KINDS[name].labels == "several" else lambda n, seed: mixed(n, 3, seed)
    )(70, 1)[0]  # many: beyond 64
    found = answers(model, new)
    assert np.isfinite(found).all()
    if task != "regression":
        assert found.dtype == np.float64
        np.testing.assert_array_equal(model.predict_proba(new), found)
        assert model.calibration_ == "none" or ((found > 0) & (found < 1)).all()
        if KINDS[name].labels == "one":
            np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
            assert (model.predict(X) == y).mean() > 0.45
        else:
            np.testing.assert_array_equal(model.predict(new), found > 0.5)
    alone = np.concatenate([answers(model, new[i : i + 1]) for i in range(70)])
    np.testing.assert_allclose(alone, found, atol=1e-12)
    many = np.resize(
        np.arange(70), 2_100
    )  # beyond blocks of rows, and no multiple of one
    np.testing.assert_allclose(answers(model, new[many]), alone[many], atol=1e-12)
    reader = _Reader(io.BytesIO(pickle.dumps(model)))
    np.testing.assert_array_equal(answers(reader.load(), new), found)
    assert {
        kind for kind in reader.ours if not issubclass(kind, (Stored, tuple))
    } == set()
    with parallel_config(n_jobs=2):
        np.testing.assert_array_equal(answers(clone(model).fit(X, y), new), found)
    assert answers(model, np.empty((0, X.shape[1]))).shape == (0, *found.shape[1:])

    unseen, gone = new.copy(), new.copy()
    unseen[:, model.categorical()[0]], gone[:, model.categorical()[0]] = 17, np.nan
    np.testing.assert_array_equal(answers(model, unseen), answers(model, gone))
    numbers = np.setdiff1d(np.arange(X.shape[1]), model.categorical())
    for far in (1e8, 1e100, -1e308):
        beyond = gone.copy()
        beyond[:, numbers] = np.resize(
            [far, -far, np.nan, far, far], (70, len(numbers))
        )
        P = answers(model, beyond)
        assert np.isfinite(P).all()
        assert task == "regression" or ((P >= 0) & (P <= 1)).all()
        assert (
            task == "regression"
            or KINDS[name].labels == "several"
            or np.allclose(P.sum(axis=1), 1)
        )


@pytest.mark.parametrize("name", CLASSIFIERS + SEVERAL)
def test_a_weight_is_a_number_of_rows(name):
    """Rows of weight 0 are as if they were not there, and a class of threefold weight becomes more probable."""
    model, X, y = learner(name, K=2)
    one = y[:, 0] if KINDS[name].labels == "several" else y
    column = 0 if KINDS[name].labels == "several" else 1
    kept = np.arange(len(X)) % 7 > 0
    plain = model.fit(X[kept], y[kept]).posterior(X)
    np.testing.assert_array_equal(
        clone(model).fit(X, y, kept.astype(float)).posterior(X), plain
    )
    heavy = (
        clone(model)
        .fit(X[kept], y[kept], np.where(one == 1, 3.0, 1.0)[kept])
        .posterior(X)
    )
    assert heavy[:, column].mean() > plain[:, column].mean() + 0.05


@pytest.mark.parametrize("name", CLASSIFIERS + SEVERAL)
@pytest.mark.thorough
def test_refit_learns_from_the_new_rows_and_keeps_the_calibration(name):
    """The calibration is that of the first fit; rows that were held out are predicted better than before."""
    model, X, y = learner(name, K=2)
    model.fit(X[:160], y[:160])
    curves = "curves_" if KINDS[name].labels == "several" else "calibrator_"
    before, calibration = (
        loss(model.posterior(X[160:]), y[160:]),
        getattr(model, curves, None),
    )
    model.refit(X, y)
    assert loss(model.posterior(X[160:]), y[160:]) < before
    assert getattr(model, curves, None) is calibration


def loss(P, y):
    """The mean log loss of classes y (n,) or labels (n, L)."""
    right = P[np.arange(len(y)), y] if y.ndim == 1 else np.where(y == 1, P, 1 - P)
    return -np.log(np.maximum(right, 1e-9)).mean()


@pytest.mark.parametrize(("name", "task"), KINDS_AND_TASKS)
def test_weights_of_one_give_the_model_without_weights(name, task):
    model, X, y = learner(name, task, n=60)
    weighted = clone(model)
    ones = np.ones(60)
    for fitted, other in (
        (model.fit(X, y), weighted.fit(X, y, ones)),
        (model.refit(X, y), weighted.refit(X, y, ones)),
    ):
        answer = "values" if model.regresses else "posterior"
        assert (getattr(fitted, answer)(X) == getattr(other, answer)(X)).all()


@pytest.mark.parametrize(("name", "task"), KINDS_AND_TASKS)
def test_a_refit_with_weights_follows_the_heavy_rows(name, task):
    """Half of the rows contradict the other half: the answers go to the half that has the weight."""
    model, X, y = learner(name, task, n=120)
    contrary = y.max() - y
    model.fit(X, y)
    rows, targets = np.vstack((X, X)), np.concatenate((y, contrary))
    answers = []
    for weight in (np.repeat((9.0, 1.0), 120), np.repeat((1.0, 9.0), 120)):
        fitted = model.refit(rows, targets, weight)
        answer = fitted.values if model.regresses else fitted.posterior
        answers.append(np.array(answer(X)))
    lead = answers[0] - answers[1]
    if y.ndim == 1 and not model.regresses:
        differs = np.flatnonzero(y != contrary)
        assert lead[differs, y[differs]].mean() > 0.05
    else:
        assert (lead * (y - contrary)).mean() > 0


@pytest.mark.parametrize(("name", "task"), KINDS_AND_TASKS)
def test_a_listener_that_raises_ends_the_fit(name, task):
    model, X, y = learner(name, task, n=60)

    def stop(*_):
        raise InterruptedError

    with listen(stop), pytest.raises(InterruptedError):
        model.fit(X, y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_may_be_strings_and_are_two_at_least(name):
    """`classes_` are the sorted labels, and predictions are labels."""
    model, X, y = learner(name, K=2)
    labels = np.array(["yes", "no"])[y]
    assert list(model.fit(X, labels).classes_) == ["no", "yes"]
    assert (model.predict(X) == labels).mean() > 0.7
    with pytest.raises(Invalid, match="1 class"):
        clone(model).fit(X, np.ones(len(X)))


@pytest.mark.parametrize(
    ("name", "chain"),
    [*((name, {}) for name in SEVERAL), ("multilabel_logistic", {"chain": True})],
)
def test_several_labels_may_be_sparse_and_need_not_vary_and_are_0_or_1(name, chain):
    model, X, y = learner(name, n=60)
    model.set_params(**chain)
    found = model.fit(X, y).posterior(X)
    np.testing.assert_array_equal(
        clone(model).fit(X, sparse.csr_array(y)).posterior(X), found
    )
    y = y.copy()
    y[:, :2] = [1, 0]
    y[5, 0] = 0
    found = model.fit(X, y).posterior(
        X
    )  # of a label that varies in one row, and of one that never does
    np.testing.assert_allclose(
        found[:, 1], 1 / 62
    )  # many cases cannot prove that something never happens
    assert found[5, 0] < found[:, 0].mean()
    assert model.calibrations_[:2] == ["none", "none"]
    for labels in (
        np.arange(60) % 3,
        np.arange(120).reshape(60, 2) % 3,
        np.full((60, 2), 0.5),
    ):
        with pytest.raises(ValueError, match=r".+"):
            model.fit(X, labels)


@pytest.mark.parametrize(
    ("name", "task"),
    [one for one in KINDS_AND_TASKS if one[0] in ("budget_forest", "cost_tree")],
)
def test_a_budget_below_every_question_leaves_the_prior(name, task):
    """No question, no cost, the class shares or the mean."""
    model, X, y = learner(name, task)
    model.set_params(budget=1e-6).fit(X, y)
    assert simulate(model.model_, X, model.prices_).cost.sum() == 0
    expected = (
        np.full((len(X), 1), y.mean())
        if task == "regression"
        else np.tile(np.bincount(y) / len(y), (len(X), 1))
    )
    np.testing.assert_allclose(answers(model, X), expected, atol=0.01)


@pytest.mark.parametrize(
    ("name", "beyond"),
    [
        *(
            (name, 1e39)
            for name in ("forest_chain", "multilabel_forest", "random_forest")
        ),
        ("logistic", 1e101),
    ],
)
def test_numbers_beyond_measure_are_refused_by_column(name, beyond):
    """Trees compare in float32; squares would overflow."""
    model, X, y = learner(name, n=60)
    X[3, 1] = beyond
    with pytest.raises(Invalid) as error:
        model.fit(X, y)
    assert error.value.flaws[0].loc == "/columns/1"
    assert np.isfinite(model.fit(X[4:], y[4:]).posterior(X)).all()


@pytest.mark.parametrize(
    "name", ["budget_forest", "multilabel_forest", "random_forest"]
)
def test_categories_that_decide_in_no_order_of_their_codes_are_split(name):
    """One split parts them: it is in the order of their classes."""
    few = (
        {"max_depth": 1}
        if name == "budget_forest"
        else {"min_samples_leaf": 50, "calibration": "none"}
    )
    X = np.random.default_rng(0).integers(0, 9, (600, 1)).astype(float)
    y = np.isin(X[:, 0], [1, 4, 8]).astype(int)
    labels = np.column_stack((y, y)) if KINDS[name].labels == "several" else y
    model = (
        resolve({"kind": name} | SMALL.get(name, {}) | few)
        .build(categorical_features=[0], random_state=0)
        .fit(X, labels)
    )
    np.testing.assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize(
    ("name", "options", "place"),
    [
        ("benefit_logistic", {"benefits": [[0.0, 1.0], [-5.0, 0.0]]}, "/benefits/0/1"),
        ("budget_forest", {"feature_costs": [1, 2]}, "/feature_costs"),
        ("budget_forest", {"feature_costs": [1, 2, -3, 4]}, "/feature_costs/2"),
        ("budget_forest", {"feature_costs": Prices.unit(3)}, "/feature_costs"),
        ("cost_tree", {"feature_costs": [1, -1, 1, 1]}, "/feature_costs/1"),
        (
            "cost_tree",
            {"task": "regression", "feature_costs": [1, 1]},
            "/feature_costs",
        ),
        (
            "hierarchical_logistic",
            {"first": made("kernel_logistic", majority=1)},
            "/first/majority",
        ),
        ("hierarchical_logistic", {"majority": 9}, "/majority"),
        (
            "hierarchical_logistic",
            {"first": made("benefit_logistic"), "benefits": [[1.0]]},
            "/benefits",
        ),
        ("kernel_logistic", {"majority": "nobody"}, "/majority"),
        ("multilabel_forest", {"max_features": 7}, "/max_features"),
        ("random_forest", {"max_features": 7}, "/max_features"),
    ],
)
def test_what_does_not_fit_the_data_is_refused_at_its_place(name, options, place):
    X, y, _ = mixed(40, 2, 7, words=(), missing=0.0)
    with pytest.raises(Invalid) as error:
        made(name, **options).fit(
            X, np.column_stack((y, 1 - y)) if name in SEVERAL else y
        )
    assert [flaw.loc for flaw in error.value.flaws] == [place]


@pytest.mark.parametrize(
    "name",
    [
        kind.name
        for kind in KINDS.values()
        if "calibration" in request_of(kind).model_fields
    ],
)
@pytest.mark.thorough
def test_noise_promises_no_more_than_it_earns(name):
    """The expected loss of the decisions on fresh rows is their realised loss, to a tenth."""
    kind, B, promised, realised = (
        KINDS[name],
        np.array([[0.0, -1.0], [-5.0, 0.0]]),
        0.0,
        0.0,
    )
    quick = {
        one: 30
        for one in ("n_estimators", "max_iter")
        if one in request_of(kind).model_fields
    }
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = (
            rng.normal(size=(1150, 6)),
            rng.permutation(np.arange(1150) % 4 == 0).astype(int),
        )
        labels = (
            np.column_stack((y, rng.permutation(y))) if kind.labels == "several" else y
        )
        model = resolve({"kind": name, **quick}).build(
            benefits=B if kind.needs_benefits else None, random_state=seed
        )
        P = model.fit(X[:150], labels[:150]).posterior(X[150:])
        decision = decide(
            np.column_stack((1 - P[:, 0], P[:, 0])) if kind.labels == "several" else P,
            B,
        )
        promised += decision.expected_benefits.max(axis=1).mean()
        realised += row_benefits(y[150:], decision.choice, B).mean()
    assert 0.9 < promised / realised < 1.1
