"""Which rules a matrix allows, that each decides as it says, and the rules by the costs of rare
classes.
"""

from dataclasses import replace

import numpy as np
import pytest

from payoff.decisions.benefit import decide
from payoff.decisions.folds import stratified_folds
from payoff.decisions.rule_ranking import LabelledRows, doubts
from payoff.decisions.rules import (
    HeldOutRows,
    apply_rules,
    beta_delta,
    hierarchical,
    same_for_all,
)
from payoff.decisions.threshold import HoldoutScores, decide_by_threshold
from tests.reference import decisions as reference

BINARY = np.array([[0.0, -1.0], [-10.0, 5.0]])
WIDE = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 2.0]])


def rows(n=200, K=2, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.7), n)
    y = np.array([rng.choice(K, p=p) for p in P])
    return HeldOutRows(P, P, y, stratified_folds(y, 5, 0))


def names(B):
    return [rule.rule for rule in apply_rules(rows(K=len(B)), B)]


def test_two_classes_and_actions_have_thresholds():
    assert names(BINARY) == [
        "expected_benefit",
        "most_probable",
        "threshold_posterior",
        "threshold_holdout",
    ]
    assert names(WIDE) == ["expected_benefit", "most_probable"]


def test_the_cut_of_each_fold_is_the_best_on_all_other_folds():
    """The rows of the fold do not take part."""
    held_out = rows(n=60)
    chosen = {rule.rule: rule for rule in apply_rules(held_out, BINARY)}[
        "threshold_holdout"
    ]

    for fold in range(5):
        inside = held_out.fold != fold
        cut, _ = HoldoutScores(held_out.scores[inside, 1], held_out.y[inside]).best(
            BINARY
        )
        expected = decide_by_threshold(held_out.scores[~inside, 1], cut)
        assert (chosen.choice[~inside] == expected).all()
    assert chosen.cross_validated
    of_all_rows, _ = HoldoutScores(held_out.scores[:, 1], held_out.y).best(BINARY)
    assert chosen.figures["threshold"] == of_all_rows.value


def test_a_cut_by_matrices_of_rows_is_requested_only_as_the_number_that_decides_so():
    """With a matrix for each row, a number cuts posteriors in use, with action 1 above it."""
    held_out = rows()
    matrices = np.linspace(0.5, 2, len(held_out.y))[:, None, None] * BINARY
    turned = matrices[:, :, ::-1]
    corrected = replace(held_out, priors=np.array([0.8, 0.2]))
    cases = (held_out, matrices), (held_out, turned), (corrected, matrices)
    by_cut = [apply_rules(*case)[-1] for case in cases]

    assert [rule.request and rule.request["rule"] for rule in by_cut] == [
        "threshold",
        None,
        None,
    ]
    assert by_cut[0].request["threshold"] == by_cut[1].figures["threshold"]
    for B, count in ((matrices, 0), (turned, 1)):
        labelled = LabelledRows(held_out.y, B, np.full(2, 0.5))
        warnings = [
            text for text in doubts(labelled, ("a", "b"), 1.0) if "BELOW" in text
        ]
        assert len(warnings) == count


def test_one_row_of_a_class_is_too_few_for_a_cut():
    P = np.array([[0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    y = np.array([1, 0, 0])
    rules = apply_rules(HeldOutRows(P, P, y, stratified_folds(y, 5, 0)), BINARY)

    assert "threshold_holdout" not in [rule.rule for rule in rules]


def test_the_likeliest_class_is_acted_on_with_its_best_action():
    held_out = rows()
    blind = apply_rules(held_out, WIDE)[1]

    assert (blind.choice == np.where(held_out.P[:, 1] > 0.5, 0, 2)).all()
    assert blind.request is None


def test_posteriors_and_scores_are_kept_apart():
    """Cuts on the hold-out are cuts on the model's own scores, all else decides on the corrected
    posteriors.
    """
    base = rows()
    corrected = base.P ** np.array([1.0, 3.0])
    corrected /= corrected.sum(axis=1, keepdims=True)
    priors = np.array([0.8, 0.2])
    by_name = {
        r.rule: r
        for r in apply_rules(
            HeldOutRows(corrected, base.P, base.y, base.fold, priors), BINARY
        )
    }

    assert (
        by_name["expected_benefit"].choice == decide(corrected, BINARY).choice
    ).all()
    best, _ = HoldoutScores(base.P[:, 1], base.y).best(BINARY, priors)
    assert by_name["threshold_holdout"].figures["threshold"] == best.value


def test_one_action_for_all_is_the_best_column():
    assert same_for_all(4, WIDE, np.array([0.5, 0.5])).choice.tolist() == [2, 2, 2, 2]
    assert same_for_all(1, WIDE, np.array([0.0, 1.0])).figures == {"action": 0}
    assert same_for_all(1, np.zeros((2, 2)), np.array([0.5, 0.5])).choice.tolist() == [
        0
    ]


def problems(seed):
    """1,000 times posteriors (100, K), K 2…8, a majority class, and C_DD > 0, C_HD, C_DH of very
    different sizes.
    """
    rng = np.random.default_rng(seed)
    for _ in range(1_000):
        K = int(rng.integers(2, 9))
        P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 5.0])), 100)
        C_DD, C_HD, C_DH = 10.0 ** rng.uniform(-2, 2, 3)
        majority = int(rng.integers(K))
        yield (
            P,
            majority,
            C_DD,
            C_HD * (rng.random() < 0.95),
            C_DH * (rng.random() < 0.95),
        )


def test_beta_delta_is_the_minimum_expected_cost():
    """100,000 random posteriors and costs, against enumeration of the paper's loss and against the
    rule as printed.
    """
    for P, majority, *costs in problems(1):
        answer = beta_delta(P, majority, *costs)
        cost = reference.expected_costs(P, majority, *costs)
        chosen = np.take_along_axis(cost, answer.choice[:, None], axis=1)[:, 0]

        np.testing.assert_allclose(chosen, cost.min(axis=1), rtol=1e-12, atol=1e-15)
        second = np.partition(cost, 1, axis=1)[:, 1]
        clear = second > cost.min(axis=1) * (1 + 1e-9) + 1e-9
        assert (answer.choice == cost.argmin(axis=1))[clear].all()
        assert (answer.choice == reference.printed_beta_delta(P, majority, *costs))[
            clear
        ].all()
        assert clear.mean() > 0.5 or 0 in costs


@pytest.mark.parametrize(
    ("P", "majority", "costs", "choice", "figures"),
    [
        ([0.25, 0.5, 0.25], 1, (1, 1, 1), 1, None),
        # All three classes cost .75: the lowest index.
        ([0.25, 0.5, 0.25], 1, (1, 1, 1.5), 0, None),
        ([0.5, 0.25, 0.25], 0, (1, 1, 1.5), 0, None),
        (
            [0.6, 0.3, 0.1],
            0,
            (0, 1, 3),
            1,
            {"beta": None, "delta": None, "threshold": 0.25},
        ),
        (
            [0.6, 0.3, 0.1],
            0,
            (1, 2, 10),
            1,
            {"beta": 11.0, "delta": 9.0},
        ),  # the paper's
        ([0.6, 0.3, 0.1], 0, (0, 0, 0), 1, {"beta": None, "delta": None}),
        # Beta overflows.
        (
            [0.5, 0.3, 0.2],
            0,
            (1e-300, 1e100, 1.1e100),
            1,
            {"beta": None, "delta": None},
        ),
    ],
)
def test_beta_delta_of_one_row(P, majority, costs, choice, figures):
    answer = beta_delta(np.array([P]), majority, *costs)

    assert answer.choice.tolist() == [choice]
    assert figures in (None, answer.figures)


def test_hierarchical_calls_a_tie_the_minority_and_its_likeliest_class():
    """Posteriors that are shares of up to 30 rows and whole costs, also where p* or the posteriors
    are rounded.
    """
    ties = 0
    rng = np.random.default_rng(5)
    for trial in range(5_000):
        counts = rng.multinomial(rng.integers(1, 31), rng.dirichlet(np.ones(3)))
        majority = int(rng.integers(3))
        H, D = counts[majority], np.delete(counts, majority)
        # In every other trial the costs make a tie: C_DH P(D) = C_HD P(H).
        C_HD, C_DH = (
            (int(D.sum()), int(H)) if trial % 2 else rng.integers(1, 10, 2).tolist()
        )
        ties += C_DH * D.sum() == C_HD * H
        likeliest = np.delete(np.arange(3), majority)[D.argmax()]
        expected = likeliest if C_DH * D.sum() >= C_HD * H else majority
        P = (counts / counts.sum())[None]

        assert hierarchical(P, majority, C_HD, C_DH).choice.tolist() == [expected]
        assert hierarchical(P, majority, C_HD / 10, C_DH / 10).choice.tolist() == [
            expected
        ]

    assert ties >= 2_500


def test_without_c_dd_the_rule_is_hierarchical_and_says_so():
    """All minority classes cost the same then: the likeliest is named, at the least expected
    cost.
    """
    rng = np.random.default_rng(4)
    P = rng.dirichlet(np.ones(4), 500)
    answer = beta_delta(P, 2, 0, 1, 3)
    cost = reference.expected_costs(P, 2, 0, 1, 3)

    assert "C_DD is 0" in answer.warnings[0]
    assert answer.choice.tolist() == hierarchical(P, 2, 1, 3).choice.tolist()
    np.testing.assert_allclose(
        cost[np.arange(500), answer.choice], cost.min(axis=1), rtol=1e-12
    )


def test_free_errors_are_defined_and_warned_about():
    P = np.array([[0.9, 0.06, 0.04], [1.0, 0.0, 0.0], [0.0, 0.4, 0.6]])

    for costs, threshold, choice, warning in (
        ((0, 0), None, [1, 1, 2], "p* is undefined"),
        ((0, 1), 0.0, [1, 1, 2], "C_HD is 0"),
        ((1, 0), 1.0, [0, 0, 2], "C_DH is 0"),
        ((1, 4), 0.2, [0, 0, 2], ""),
    ):
        answer = hierarchical(P, 0, *costs)
        assert (answer.figures["threshold"], answer.choice.tolist()) == (
            threshold,
            choice,
        )
        assert len(answer.warnings) == bool(warning)
        assert warning in "".join(answer.warnings)

    nothing_costs = beta_delta(P, 0, 0, 0, 0)
    assert (nothing_costs.choice.tolist(), len(nothing_costs.warnings)) == (
        [1, 1, 2],
        2,
    )
    majority_is_free = beta_delta(P, 0, 1, 1, 0)
    assert majority_is_free.choice.tolist() == [0, 0, 0]
    assert "C_DH is 0" in majority_is_free.warnings[0]
