"""Decisions under a benefit matrix, and the matrix as nested lists."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.decisions.benefit import (
    LARGEST,
    Prepared,
    as_benefits,
    confusion,
    decide,
    irrelevance,
    mu,
    oddities,
    row_benefits,
)
from payoff.decisions.case_benefits import CaseBenefits, Term
from payoff.decisions.rule_ranking import LabelledRows
from payoff.errors import Invalid
from tests.reference import decisions as reference


def problems(count, seed):
    """Random (posterior, matrix of any signs), K 2…8, A 1…10, of very different scales and
    offsets.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        K, A = rng.integers(2, 9), rng.integers(1, 11)
        p = rng.dirichlet(np.full(K, rng.choice([0.1, 1.0, 10.0])))
        yield p, rng.normal(rng.normal(0, 3), 10.0 ** rng.uniform(-3, 6), size=(K, A))


def integer_problems(count, seed):
    """Posteriors that are counts, matrices of small integers: many exact ties, and all numbers
    known exactly.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        K, A = rng.integers(2, 9), rng.integers(1, 11)
        counts = rng.multinomial(rng.integers(1, 15), rng.dirichlet(np.ones(K)))
        yield counts, rng.integers(-2, 3, size=(K, A)).astype(float)


def test_decisions_equal_exhaustive_search_in_exact_arithmetic():
    """10,000 random matrices and posteriors, each against fractions, one by one and per-instance
    agreeing.
    """
    for p, B in problems(10_000, seed=1):
        expected = reference.best_action(p, B)

        assert decide(p[None], B).choice.tolist() == [expected]
        assert decide(
            np.vstack([p, p[::-1]]), np.stack([B, B[::-1]])
        ).choice.tolist() == [
            expected,
            expected,
        ]


def test_exact_ties_go_to_the_lowest_index_whatever_the_rounding():
    """Posteriors such as 1/3 are rounded; actions that tie for the true shares tie all the same."""
    ties = 0
    for counts, B in integer_problems(5_000, seed=2):
        exact = [Fraction(int(c), int(counts.sum())) for c in counts]
        benefits = reference.expected_benefits(
            exact, [[Fraction(b) for b in row] for row in B]
        )
        ties += benefits.count(max(benefits)) > 1
        p = counts / counts.sum()

        assert decide(p[None], B).choice[0] == benefits.index(max(benefits))
        assert (
            decide(np.vstack([p, p]), B).choice.tolist()
            == [benefits.index(max(benefits))] * 2
        )

    assert ties > 500


def test_row_shifts_and_positive_scaling_change_no_decision():
    rng = np.random.default_rng(3)
    for counts, B in integer_problems(3_000, seed=4):
        p = (counts / counts.sum())[None]
        choice = decide(p, B).choice
        # Sums of these and small integers are exact in float64.
        shift = rng.integers(-(2**45), 2**45, size=(len(B), 1))

        assert decide(p, B + shift).choice == choice
        assert decide(p, B * 3.0).choice == choice
        assert decide(p, B * 2.0**-400).choice == choice
    for p, B in problems(3_000, seed=5):
        assert (
            decide(p[None], B * 10 ** rng.uniform(-100, 100)).choice
            == decide(p[None], B).choice
        )


def test_many_rows_decide_as_each_alone():
    """One matrix for all rows, and one for each, both equal to deciding row by row."""
    rng = np.random.default_rng(6)
    P, B = rng.dirichlet(np.ones(4), 500), rng.normal(size=(500, 4, 3))
    common, by_row = decide(P, B[0]), decide(P, B)
    alone = [decide(P[[i]], B[[i]]) for i in range(500)]

    assert common.choice.tolist() == [
        decide(P[[i]], B[0]).choice[0] for i in range(500)
    ]
    assert by_row.choice.tolist() == [decision.choice[0] for decision in alone]
    assert Prepared(B, ()).decide(P).choice.tolist() == by_row.choice.tolist()
    assert Prepared(B[0], ()).decide(P).choice.tolist() == common.choice.tolist()
    expected = np.vstack([decision.expected_benefits for decision in alone])
    np.testing.assert_allclose(by_row.expected_benefits, expected, rtol=1e-12)
    np.testing.assert_allclose(common.expected_benefits, P @ B[0], rtol=1e-12)


def test_irrelevance_means_that_one_action_is_best_for_every_class_and_names_it():
    warned = 0
    for _, B in integer_problems(500, seed=8):
        best = [a for a in range(B.shape[1]) if (B[:, [a]] >= B).all()]
        warned += bool(best)
        warnings = irrelevance(B, [f"act{a}" for a in range(B.shape[1])])

        assert len(warnings) == bool(best)
        assert not best or f"action 'act{best[0]}' is" in warnings[0]

    assert warned > 20
    by_instance = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    assert "1 of 2 instances" in irrelevance(by_instance)[0]


def test_the_upper_bound_is_the_benefit_of_decisions_that_know_the_truth():
    rng = np.random.default_rng(9)
    y, B = rng.integers(0, 3, 400), rng.normal(size=(3, 4))
    shares = np.bincount(y) / 400
    priors = np.array([0.2, 0.3, 0.5])
    bound = LabelledRows(y, B, shares).bound

    assert bound == pytest.approx(reference.upper_bound(shares, B))
    assert LabelledRows(y, B, priors, known=True).bound == pytest.approx(
        reference.upper_bound(priors, B)
    )
    assert row_benefits(y, B.argmax(axis=1)[y], B).mean() == pytest.approx(bound)
    assert row_benefits(y, rng.integers(0, 4, 400), B).mean() < bound
    largest = as_benefits([[LARGEST, -LARGEST], [-LARGEST, LARGEST]], 2)
    assert decide(np.array([[0.4, 0.6]]), largest).choice.tolist() == [1]
    assert LabelledRows(y.clip(0, 1), largest, shares).bound == pytest.approx(LARGEST)


def test_mu_is_undefined_without_a_positive_finite_bound():
    pairs = [
        (3.0, 4.0),
        (-3.0, 4.0),
        (1.0, 0.0),
        (1.0, -1.0),
        (np.float64(1e150), np.float64(1e-300)),
    ]
    assert [mu(*pair) for pair in pairs] == [0.75, -0.75, None, None, None]


def test_benefits_and_confusion_of_rows():
    y, choice = np.array([0, 1, 1]), np.array([1, 1, 0])
    B = np.array([[1.0, -2.0], [-5.0, 3.0]])

    assert row_benefits(y, choice, B).tolist() == [-2, 3, -5]
    assert row_benefits(y, choice, np.stack([B, 2 * B, 3 * B])).tolist() == [-2, 6, -15]
    assert confusion(y, choice, 2, 3).tolist() == [[0, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("value", "places"),
    [
        (None, [""]),
        ([], [""]),
        ([1, 2], ["/0", "/1"]),
        ([[1, 2]], [""]),
        ([[], []], ["/0", "/1"]),
        ([[1, 2], [3]], ["/1"]),
        ([[1, None], [3, True]], ["/0/1", "/1/1"]),
        ([[1, float("nan")], [float("inf"), 4]], ["/0/1", "/1/0"]),
        ([[1, 2], [3, -1.1e150]], ["/1/1"]),
        ([[1, 2], [10**400, 4]], ["/1/0"]),
        ([[1, [2]], [3, 4]], ["/0/1"]),
        ([[[1, 2], [3, 4]]] * 2, [""]),
        ([[[1, 2], [3, 4]], [[1, 2]], [[1, 2], ["x", 4, 5]]], ["/1", "/2/1"]),
        ([[[1, 2], [3, 4]], 5, [[1, 2], [3, 4]]], ["/1"]),
        ([[[], []]] * 3, ["/0/0", "/0/1", "/1/0", "/1/1", "/2/0", "/2/1"]),
        ([[None] * 50] * 2, [f"/0/{a}" for a in range(20)]),  # the first twenty
    ],
)
def test_a_bad_matrix_is_refused_with_the_place(value, places):
    """For two classes and three instances."""
    with pytest.raises(Invalid) as caught:
        as_benefits(value, 2, 3)

    assert [flaw.loc for flaw in caught.value.flaws] == places


def test_tuples_are_lists_actions_are_counted_and_instances_refused_where_there_are_none():
    assert as_benefits(((1, 2.5), (3, -4)), 2, 7).tolist() == [[1, 2.5], [3, -4]]
    for value, more in (([[1, 2], [3, 4]], {"n_actions": 3}), ([[[1, 2], [3, 4]]], {})):
        with pytest.raises(Invalid):
            as_benefits(value, 2, **more)


cells = st.one_of(
    st.floats(), st.integers(), st.none(), st.booleans(), st.text(max_size=2)
)
nested = st.recursive(cells, lambda inner: st.lists(inner, max_size=3), max_leaves=20)


@given(
    nested,
    st.integers(1, 3),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(1, 3),
)
def test_any_value_is_a_clean_matrix_or_an_error_with_a_place(
    value, n_classes, n_instances, n_actions
):
    try:
        B = as_benefits(value, n_classes, n_instances, n_actions)
    except Invalid:
        return

    assert B.shape[-2] == n_classes
    assert B.ndim == 2 or len(B) == n_instances
    assert n_actions in (None, B.shape[-1])
    assert np.isfinite(B).all()
    assert B.tolist() == value


def test_oddities_show_matrices_that_are_turned_or_negated():
    plain = np.array([[1.0, -5.0], [-3.0, 2.0]])
    classes = ["a", "b"]
    assert oddities(plain, classes, classes) == oddities(plain, None, classes) == []
    assert "same name" in oddities(-plain, ["a", "b"], classes)[0]
    assert "same name" in oddities(-plain, None, classes)[0]
    assert "same name" in oddities(plain, ["b", "a"], classes)[0]
    assert oddities(-plain, ["x", "y"], classes) == []
    assert "best in training" in oddities(-plain, ["x", "y"], classes, ["x", "y"])[0]
    assert (
        "same name in 1 of 2 matrices"
        in oddities(np.array([plain, -plain]), ["a", "b"], classes)[0]
    )
    assert oddities(
        np.array([[1.0, 1.0], [0.0, 0.0]]), classes, classes
    ) == irrelevance(np.zeros((2, 2)), classes)


def in_words(B, actions, terms=()):
    base = np.array(B, dtype=float)
    cases = CaseBenefits(base, terms) if terms else None
    return Prepared(base, actions, classes=("healthy", "ill"), cases=cases).in_words


def test_a_matrix_in_words_shows_signs_and_transposition():
    actions = ("wait", "treat")
    healthy = "healthy: wait brings 0, treat costs 1"
    assert in_words([[0, -1], [-10, 5.5]], actions) == [
        healthy,
        "ill: wait costs 10, treat brings 5.5",
    ]
    assert in_words([[-10, 5.5], [-0.0, -1]], actions) == [
        "healthy: wait costs 10, treat brings 5.5",
        "ill: wait brings 0, treat costs 1",
    ]
    terms = [
        Term(0, 1, "fee", -0.75, ""),
        Term(1, 0, "age", -0.125, ""),
        Term(1, 1, "fee", 1, ""),
    ]
    assert in_words([[0, 2], [0, -3]], actions, terms) == [
        "healthy: wait brings 0, treat brings 2 less 0.75 times fee",
        "ill: wait costs 0.125 times age, treat brings -3 plus 1 times fee",
    ]


def test_a_large_matrix_and_those_of_instances_have_no_words():
    long = [f"an action with a long name {'x' * 150} {a}" for a in range(10)]
    assert in_words(np.ones((2, 10)), long) == []
    assert in_words(np.ones((2, 51)), range(51)) == []
    assert in_words(np.ones((3, 2, 2)), ("a", "b")) == []
