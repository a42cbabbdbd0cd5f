"""Decisions within limits earn most in sum, and shadow prices are what one more unit earns."""

import numpy as np
import pytest

from payoff.decisions.benefit import decide
from payoff.decisions.limits import Limits, decide_within
from payoff.errors import Invalid
from tests.reference import decisions as twin


def members(limits: Limits) -> list[tuple[str, int]]:
    """The field and the place of each limit that is set."""
    no_limit = np.iinfo(np.int64).max
    lower = [("lower", a) for a, value in enumerate(limits.lower) if value]
    upper = [("upper", a) for a, value in enumerate(limits.upper) if value < no_limit]
    finite = np.flatnonzero(np.isfinite(limits.available))
    return [*lower, *upper, *(("available", r) for r in finite)]


def problem(rng, n, A, *, resources, tied=False):
    """Probabilities, benefits and limits; with `tied` equal rows, and benefits of few values."""
    K = int(rng.integers(1, 4))
    P = rng.dirichlet(np.ones(K), n)
    B = rng.normal(size=(n, K, A) if rng.random() < 0.2 else (K, A))
    if tied:
        P, B = np.repeat(P[:1], n, axis=0), np.round(B)
    limits = Limits.none(A, resources)
    has_lower, has_upper = rng.random(A) < 0.3, rng.random(A) < 0.5
    limits.lower[has_lower] = rng.integers(0, max(n // 2, 2), has_lower.sum())
    limits.upper[has_upper] = limits.lower[has_upper] + rng.integers(
        0, max(n // 3, 3), has_upper.sum()
    )
    limits.uses[:] = rng.integers(0, 4, (resources, A)) * (0.1 if tied else 1.0)
    limits.available[:] = rng.integers(0, 2 * n + 1, resources) * (0.1 if tied else 1.0)
    return P, B, limits


def decided(P, B, limits):
    """The expected benefits and what was decided; None where the limits cannot be met."""
    decision = decide(P, B)
    try:
        return decision.expected_benefits, decide_within(P, B, decision.choice, limits)
    except Invalid:
        return None


def feasible_problem(rng, largest, **options):
    """The first problem whose limits can be met, and what was decided."""
    while True:
        n, A = int(rng.integers(3, largest)), int(rng.integers(2, 7))
        candidate = problem(rng, n, A, **{"resources": 0, **options})
        answer = decided(*candidate)
        if answer:
            return candidate, *answer


def total(V, choice):
    return V[np.arange(len(V)), choice].sum()


def check_within(choice, limits):
    assert twin.allowed(np.bincount(choice, minlength=limits.lower.size), *limits)


@pytest.mark.sampled
@pytest.mark.parametrize("resources", [0, 1, 2])
@pytest.mark.parametrize(
    ("largest", "trials"), [(3, 50), (5, 100), (12, 100), (120, 70)]
)
def test_batches_earn_what_the_whole_integer_program_earns(largest, trials, resources):
    """Also where rows tie; where there is no solution, none is found."""
    rng = np.random.default_rng([largest, resources])
    for trial in range(trials):
        n, A = (
            int(rng.integers(1, largest + 1)),
            int(rng.integers(1, 5 if largest <= 5 else 7)),
        )
        P, B, limits = problem(rng, n, A, resources=resources, tied=trial % 3 == 0)
        answer = decided(P, B, limits)
        optimum = twin.best_total(decide(P, B).expected_benefits, *limits)
        assert (answer is None) == np.isneginf(optimum)
        if answer is None:
            continue
        V, solution = answer
        check_within(solution.choice, limits)
        assert total(V, solution.choice) == pytest.approx(optimum, abs=1e-9)
        assert solution.gap == 0.0


def with_one_more(limits, member):
    field, place = member
    changed = getattr(limits, field).copy()
    changed[place] += 1
    return limits._replace(**{field: changed})


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("tied", [False, True])
def test_shadow_prices_are_what_one_more_unit_earns(seed, tied):
    (P, B, limits), V, solution = feasible_problem(
        np.random.default_rng(seed), 40, tied=tied
    )
    for member in members(limits):
        with_more = decided(P, B, with_one_more(limits, member))
        price = getattr(solution, member[0])[member[1]]
        if with_more is None:
            assert np.isnan(price)
        else:
            gain = total(V, with_more[1].choice) - total(V, solution.choice)
            assert price == pytest.approx(gain, abs=1e-9), member


def scarce(seed, n=80):
    """A batch in which a resource, an upper limit and a lower limit change the best decisions."""
    rng = np.random.default_rng(seed)
    P, B = rng.dirichlet(np.ones(3), n), rng.normal(size=(3, 4))
    decision = decide(P, B)
    counts = np.bincount(decision.choice, minlength=4)
    limits = Limits.none(4, 1)
    limits.upper[0], limits.lower[1] = counts[0] * 3 // 4 + 1, counts[1] // 2 + 3
    limits.uses[0] = [0, 0, 2, 3.5]
    limits.available[0] = limits.uses[0] @ counts * 0.63 + 0.01
    return P, B, limits, decision


@pytest.mark.parametrize("seed", range(10))
def test_shadow_prices_with_resources_are_slopes_of_the_linear_program(seed):
    P, B, limits, decision = scarce(seed)
    solution = decide_within(P, B, decision.choice, limits)
    V, step = decision.expected_benefits, 1e-3
    relaxed = twin.relaxed_total(V, *limits)
    for field, place in members(limits):
        values = getattr(limits, field)
        more, less = (
            limits._replace(**{field: values.astype(float)}) for _ in range(2)
        )
        getattr(more, field)[place] += step
        getattr(less, field)[place] -= step
        gained = twin.relaxed_total(V, *more) - relaxed
        lost = relaxed - twin.relaxed_total(V, *less)
        price = getattr(solution, field)[place] * step
        assert gained - 1e-8 <= price <= lost + 1e-8, (field, place)


def test_a_batch_too_large_for_proof_still_has_a_bound(monkeypatch):
    """The gap is never less than what better decisions earn."""
    from payoff.decisions import limit_solvers  # noqa: PLC0415

    monkeypatch.setattr(limit_solvers._Search, "round", lambda *_: None)
    gaps = []
    for seed in range(10):
        P, B, limits, decision = scarce(seed)
        solution = decide_within(P, B, decision.choice, limits)
        check_within(solution.choice, limits)
        optimum = twin.best_total(decision.expected_benefits, *limits)
        earned = total(decision.expected_benefits, solution.choice)
        gaps.append(solution.gap)
        assert earned - 1e-8 <= optimum <= earned + solution.gap + 1e-8
    assert max(gaps) > 0


def test_of_tied_rows_the_first_keep_their_action():
    P, B = np.full((6, 2), 0.5), np.array([[0.0, 1.0, 0.5], [0.0, 1.0, 0.5]])
    limits = Limits.none(3)
    limits.upper[1] = 2
    choice = decide_within(P, B, np.ones(6, dtype=np.int64), limits).choice
    assert choice.tolist() == [1, 1, 2, 2, 2, 2]
    limits.upper[2] = 3
    choice = decide_within(P, B, np.ones(6, dtype=np.int64), limits).choice
    assert choice.tolist() == [1, 1, 0, 2, 2, 2]


@pytest.mark.parametrize("seed", range(20))
def test_limits_that_do_not_bind_change_nothing(seed):
    P, B, _ = problem(
        np.random.default_rng(seed), 30, 4, resources=0, tied=seed % 2 == 0
    )
    choice = decide(P, B).choice
    counts = np.bincount(choice, minlength=4)
    limits = Limits(counts // 2, counts, np.full((1, 4), 1.5), np.array([45.0]))
    of_counts = limits._replace(uses=np.zeros((0, 4)), available=np.zeros(0))
    assert decide_within(P, B, choice, limits).choice.tolist() == choice.tolist()
    assert decide_within(P, B, choice, of_counts).choice.tolist() == choice.tolist()


def test_a_cell_that_forbids_an_action_does_not_blur_the_others():
    """Users write -1e12 for never."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 200)
    plain = rng.normal(size=(3, 3))
    B = np.column_stack([plain, [1.0, 1.0, -1e12]])
    limits = Limits.none(4)
    limits.upper[:2], limits.lower[2] = [20, 30], 10
    plain_limits = Limits(*(values[..., :3] for values in limits[:3]), limits.available)
    solution = decide_within(P, B, decide(P, B).choice, limits)
    expected = decide_within(P, plain, decide(P, plain).choice, plain_limits)
    assert solution.choice.tolist() == expected.choice.tolist()
    assert solution.upper[:3] == pytest.approx(expected.upper)


def test_no_rows_have_no_decisions():
    limits = Limits.none(2, 1)
    limits.upper[1], limits.uses[0, 1], limits.available[0] = 3, 1.0, 2.0
    none = np.zeros(0, dtype=np.int64)
    assert len(decide_within(np.zeros((0, 2)), np.eye(2), none, limits).choice) == 0
    limits.lower[1] = 1
    assert decided(np.zeros((0, 2)), np.eye(2), limits) is None
