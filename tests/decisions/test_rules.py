"""Which rules a matrix allows, and that each decides as it says."""

import numpy as np

from app.decisions.benefit import decide
from app.decisions.folds import stratified_folds
from app.decisions.rules import Rows, apply_rules, same_for_all
from app.decisions.threshold import HoldoutScores, decide_by_threshold

BINARY = np.array([[0.0, -1.0], [-10.0, 5.0]])


def rows(n=200, K=2, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.7), n)
    y = np.array([rng.choice(K, p=p) for p in P])
    return Rows(P, P, y, stratified_folds(y, 5, 0))


def names(B, **changes):
    return [rule.rule for rule in apply_rules(rows(K=len(B), **changes), B)]


def test_two_classes_have_thresholds():
    assert names(BINARY) == ["expected_benefit", "most_probable", "threshold_posterior", "threshold_holdout"]


def test_more_actions_than_classes_have_none():
    assert names(np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 2.0]])) == ["expected_benefit", "most_probable"]


def test_the_cut_of_each_fold_is_sought_on_the_others():
    """What the fold's own rows would advise plays no part."""
    given_rows = rows(n=60)
    chosen = {rule.rule: rule for rule in apply_rules(given_rows, BINARY)}["threshold_holdout"]

    for fold in range(5):
        inside = given_rows.fold != fold
        cut, _ = HoldoutScores(given_rows.scores[inside, 1], given_rows.y[inside]).best(BINARY)
        assert (chosen.choice[~inside] == decide_by_threshold(given_rows.scores[~inside, 1], cut)).all()
    assert chosen.cross_validated
    whole, _ = HoldoutScores(given_rows.scores[:, 1], given_rows.y).best(BINARY)
    assert chosen.figures["threshold"] == whole.value


def test_one_row_of_a_class_is_too_few_for_a_cut():
    P = np.array([[0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    y = np.array([1, 0, 0])
    found = apply_rules(Rows(P, P, y, stratified_folds(y, 5, 0)), BINARY)

    assert "threshold_holdout" not in [rule.rule for rule in found]


def test_the_likeliest_class_is_acted_on_with_its_best_action():
    B = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 2.0]])
    given_rows = rows()
    blind = apply_rules(given_rows, B)[1]

    assert set(blind.choice[given_rows.P[:, 1] > 0.5]) == {0}
    assert set(blind.choice[given_rows.P[:, 1] < 0.5]) == {2}
    assert blind.request is None


def test_posteriors_and_scores_are_kept_apart():
    """Cuts on the hold-out are cuts on the model's own scores, all else decides on the corrected posteriors."""
    base = rows()
    corrected = base.P ** np.array([1.0, 3.0])
    corrected /= corrected.sum(axis=1, keepdims=True)
    priors = np.array([0.8, 0.2])
    found = {r.rule: r for r in apply_rules(Rows(corrected, base.P, base.y, base.fold, priors), BINARY)}

    assert (found["expected_benefit"].choice == decide(corrected, BINARY).choice).all()
    best, _ = HoldoutScores(base.P[:, 1], base.y).best(BINARY, priors)
    assert found["threshold_holdout"].figures["threshold"] == best.value


def test_one_action_for_all_is_the_best_column():
    B = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 2.0]])

    assert same_for_all(4, B, np.array([0.5, 0.5])).choice.tolist() == [2, 2, 2, 2]
    assert same_for_all(1, B, np.array([0.0, 1.0])).figures == {"action": 0}
    assert same_for_all(1, np.zeros((2, 2)), np.array([0.5, 0.5])).choice.tolist() == [0]
