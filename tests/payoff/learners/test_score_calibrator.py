"""Calibration of scores, and on rows that their model did not see: which one `auto` chooses."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.isotonic import IsotonicRegression

from payoff.decisions.metrics import rank_area
from payoff.learners.logistic import Logistic
from payoff.learners.score_calibrator import ScoreCalibrator
from payoff.learners.unseen import best_calibration

UNITS = [(1.0, 0.0), (1000.0, 300.0), (1e-6, 5.0), (1e80, 0.0)]


def two_classes(n=400, seed=0):
    """Scores whose log-odds are 1.5 s - 0.7."""
    rng = np.random.default_rng(seed)
    s = rng.normal(0, 1.5, n)
    return s, (rng.random(n) < expit(1.5 * s - 0.7)).astype(int)


def platt(s, y):
    """Platt's sigmoid by another optimiser, on the scores themselves."""
    target = np.where(y == 1, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2))

    def loss(line):
        z = line[0] * s + line[1]
        return np.mean(np.logaddexp(0, z) - target * z)

    slope, offset = minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    return np.clip(expit(slope * s + offset), 1 / (len(s) + 2), 1 - 1 / (len(s) + 2))


@pytest.mark.parametrize(("scale", "shift"), UNITS)
def test_curves_are_those_of_the_scores_themselves_in_any_unit(scale, shift):
    """Platt's sigmoid, after a refit, too, which calibrates again on the rows given; an isotonic curve, with ties."""
    s, y = two_classes()
    X = (scale * s + shift)[:, None]
    model = ScoreCalibrator(calibration="sigmoid").fit(X[:200], y[:200]).refit(X, y)
    np.testing.assert_allclose(model.posterior(X)[:, 1], platt(s, y), atol=1e-6)
    s = np.round(s, 1)
    X = (scale * s + shift)[:, None]
    model = ScoreCalibrator(calibration="isotonic").fit(X, y)
    expected = np.clip(IsotonicRegression().fit(s, y).predict(s), 1 / 402, 401 / 402)
    np.testing.assert_allclose(model.posterior(X)[:, 1], expected, atol=1e-12)


def test_a_score_for_each_of_two_classes_counts_by_their_difference():
    s, y = two_classes()
    one = ScoreCalibrator(calibration="sigmoid").fit(s[:, None], y)
    two = ScoreCalibrator(calibration="sigmoid").fit(
        np.column_stack((7 - s, np.full(len(s), 7.0))), y
    )
    both = np.column_stack((1 - s, np.ones(len(s))))
    np.testing.assert_allclose(
        two.posterior(both), one.posterior(s[:, None]), atol=1e-9
    )


@pytest.mark.parametrize(("scale", "shift"), UNITS[:2])
def test_three_scores_get_one_slope_and_offsets(scale, shift):
    rng = np.random.default_rng(3)
    S = rng.normal(0, 2, (3000, 3))
    truth = softmax(0.8 * S + [0.0, 1.0, -1.0], axis=1)
    y = (rng.random(3000)[:, None] > truth.cumsum(axis=1)).sum(axis=1)

    def loss(line):
        return -log_softmax(line[0] * S + [0, *line[1:]], axis=1)[
            np.arange(3000), y
        ].mean()

    best = minimize(loss, [1.0, 0.0, 0.0], method="BFGS").x
    X = scale * S + shift * np.array([1.0, 2.0, 0.0])
    model = ScoreCalibrator(calibration="sigmoid").fit(X, y)
    np.testing.assert_allclose(
        model.posterior(X), softmax(best[0] * S + [0, *best[1:]], axis=1), atol=5e-3
    )


def test_probabilities_are_calibrated_in_the_log_odds():
    s, y = two_classes()
    P = np.column_stack((expit(-2 * s), expit(2 * s)))  # too sure of themselves
    model = ScoreCalibrator(calibration="sigmoid", input="probabilities").fit(P, y)
    np.testing.assert_allclose(
        model.posterior(P)[:, 1], platt(logit(P[:, 1]), y), atol=1e-4
    )


def test_rows_that_are_no_probabilities_get_none():
    s, y = two_classes()
    P = np.column_stack((expit(-s), expit(s)))
    model = ScoreCalibrator(input="probabilities").fit(P, y)
    bad = np.array([[0.5, 0.6], [-0.1, 1.1], [np.nan, 0.5], [0.25, 0.75]])
    assert np.isnan(model.posterior(bad)).all(axis=1).tolist() == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("rows", [6, 60, 3000])
def test_auto_prefers_a_sigmoid_and_never_leaves_scores_as_they_are(rows):
    s, y = two_classes(rows, seed=1)
    assert ScoreCalibrator(random_state=0).fit(s[:, None], y).calibration_ == "sigmoid"
    P = np.column_stack((expit(-s), expit(s)))
    assert (
        ScoreCalibrator(input="probabilities", random_state=0).fit(P, y).calibration_
        == "none"
    ) == (rows == 6)


@pytest.mark.parametrize("given", ["scores", "probabilities"])
@pytest.mark.parametrize("rows", [300, 3000])
def test_auto_takes_an_isotonic_curve_where_no_sigmoid_fits(given, rows):
    rng = np.random.default_rng(2)
    s = rng.uniform(-3, 3, rows)
    y = (rng.random(rows) < np.where(s > 0, 0.9, 0.1)).astype(int)
    X = s[:, None] if given == "scores" else np.column_stack((expit(-s), expit(s)))
    model = ScoreCalibrator(input=given, random_state=0).fit(X, y)
    assert model.calibration_ == "isotonic"
    assert model.refit(X, y).calibration_ == "isotonic"


MARKS = [-1e30, -float(np.finfo(np.float32).max), 1e100, -999.0]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("method", ["auto", "isotonic", "sigmoid"])
def test_a_mark_in_many_rows_does_not_merge_the_other_scores(method, share, mark):
    """Also in one of three columns."""
    s, y = two_classes(600, seed=6)
    s[(np.random.default_rng(7).random(600) < share) & (y == (mark > 0))] = mark
    model = ScoreCalibrator(calibration=method).fit(s[:, None], y)
    known = s != mark
    new = model.posterior(s[known, None])[:, 1]
    assert (
        rank_area(new, y[known] == 1)[0] > rank_area(s[known], y[known] == 1)[0] - 0.005
    )
    assert not model.doubts_

    rng = np.random.default_rng(8)
    y = rng.choice(3, 400, p=[0.5, 0.3, 0.2])
    S = rng.normal(size=(400, 3)) + 2 * np.eye(3)[y]
    plain = ScoreCalibrator(calibration=method).fit(S, y).posterior(S)
    S[rng.random(S.shape) < 0.05 * (1 - np.eye(3)[y])] = -1e30
    P = ScoreCalibrator(calibration=method).fit(S, y).posterior(S)
    assert (P.argmax(axis=1) == plain.argmax(axis=1))[
        (S > -1e29).all(axis=1)
    ].mean() > 0.95


def test_scores_that_hardly_rank_the_classes_are_doubted():
    y = np.arange(400) % 2
    weak = ScoreCalibrator(calibration="isotonic").fit(
        np.arange(400.0)[:, None], y[::-1]
    )
    assert ["hardly rank" in doubt for doubt in weak.doubts_] == [True]
    down = ScoreCalibrator(calibration="isotonic").fit(
        np.arange(400.0)[::-1, None], (np.arange(400) > 200).astype(int)
    )
    assert not down.ranks()


def test_few_rows_are_calibrated_from_ten_on_and_said_to_be_left_alone_below():
    rng = np.random.default_rng(11)
    for minority, method in ((9, "none"), (10, "sigmoid")):
        y = (np.arange(200) < minority).astype(int)
        p = np.clip(0.3 * y + rng.random(200) * 0.6, 0.01, 0.99)
        found = ScoreCalibrator(input="probabilities").fit(
            np.column_stack((1 - p, p)), y
        )
        assert found.calibration_ == method
        assert bool(found.doubts_) == (method == "none")
        assert method == "sigmoid" or "left uncalibrated" in found.doubts_[0]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_scores_from_0_to_1_count_as_probabilities(columns):
    """Of the second class, or one for each: calibrated as where they are sent as probabilities."""
    rng = np.random.default_rng(10)
    K = max(columns, 2)
    y = rng.choice(K, 500)
    P = softmax(6 * rng.normal(size=(500, K)) + 8 * np.eye(K)[y], axis=1)
    sent = P[:, 1:] if columns == 1 else P
    by_scores = ScoreCalibrator(calibration="sigmoid").fit(sent, y)
    by_probabilities = ScoreCalibrator(
        input="probabilities", calibration="sigmoid"
    ).fit(P, y)
    np.testing.assert_allclose(
        by_scores.posterior(sent), by_probabilities.posterior(P), atol=1e-6
    )


def right(seed, power=1.0):
    """Probabilities (300, 10) that are right to the power of 1, and the truth; greater powers are too sure."""
    rng = np.random.default_rng(seed)
    P = softmax(rng.normal(scale=4, size=(300, 10)), axis=1)
    y = (P.cumsum(axis=1) < rng.random(300)[:, None]).sum(axis=1).clip(0, 9)
    Q = P**power
    return Q / Q.sum(axis=1, keepdims=True), y, np.ones(300)


def test_what_is_right_already_is_left_alone():
    """Or gets a sigmoid that changes next to nothing, where it is not clearly worse."""
    chosen = [best_calibration(*right(seed)) for seed in range(20)]
    assert chosen.count("none") >= 10
    assert "isotonic" not in chosen


def test_overconfidence_gets_a_sigmoid():
    assert [best_calibration(*right(seed, power=3)) for seed in range(5)] == [
        "sigmoid"
    ] * 5


def test_calibrators_see_only_rows_that_their_model_did_not():
    """A model that learns its rows by heart would look perfect in-sample; cross-fitted, noise stays noise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 100)), np.tile([0, 1], 30)
    raw = Logistic(C=1e6, calibration="none").fit(X, y).posterior(X)
    assert raw[np.arange(60), y].min() > 0.99
    calibrated = (
        Logistic(C=1e6, calibration="sigmoid", random_state=0)
        .fit(X, y)
        .posterior(rng.normal(size=(200, 100)))
    )
    assert np.abs(calibrated - 0.5).max() < 0.3


@pytest.mark.parametrize(
    ("smallest", "calibration", "used"),
    [
        (1, "isotonic", "none"),
        (2, "isotonic", "isotonic"),
        (3, "sigmoid", "sigmoid"),
        (19, "auto", "none"),
        (1000, "none", "none"),
    ],
)
def test_the_method_follows_the_smaller_of_two_classes(smallest, calibration, used):
    """A class's only row cannot be held out, and auto does not calibrate on few rows."""
    y = np.repeat([0, 1], [smallest, smallest + 3])
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    model = Logistic(calibration=calibration, random_state=0).fit(X, y)
    assert model.calibration_ == used
    assert (model.calibrator_ is None) == (used == "none")
