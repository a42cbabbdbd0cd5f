"""The best set: against all 2^n sets and outcomes, under bounds, many at once, and of classes."""

from time import process_time
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from payoff.errors import Invalid
from payoff.retrieval.dynamic_programming import LANES
from payoff.retrieval.losses import AUC_WARNING, SetTerms
from payoff.retrieval.selection import (
    DP_LIMIT,
    UNPROVEN_WARNING,
    descending,
    seconds,
    select,
    select_class_set,
    select_many,
)
from tests.reference import losses
from tests.reference.losses import LOSSES
from tests.reference.retrieval import expected_of_all_sets, outcomes

ONE = st.sampled_from([0.0, 1.0, 0.25, 0.5, 0.75, 1e-300]) | st.floats(0, 1)
PROBABILITIES = st.lists(ONE, max_size=6)
LOSS = st.sampled_from([*LOSSES.values(), losses.f_beta(0.37), losses.f_beta(20)])
OF_MANY = [LOSSES[name] for name in ("f_large", "jaccard", "g_mean", "auc")]
OF_MANY += [losses.fractional_linear([0, -2, 1, 1], [0, 0, 1, 1])]
BOTH_WAYS = pytest.mark.parametrize(
    "limit", [DP_LIMIT, 0], ids=["dynamic programming", "large-n methods"]
)


class One(NamedTuple):
    expected_loss: float
    expected_precision: float
    expected_recall: float
    error_bound: float
    k: int
    indices: np.ndarray
    curve: np.ndarray | None
    warnings: tuple[str, ...]


def sets_of(many):
    """Selected sets, one by one."""
    ends = np.cumsum(many.k)[:-1], np.cumsum(many.lengths)[:-1]
    indices = np.split(many.selected, ends[0])
    curves = (
        [None] * len(many.k) if many.curves is None else np.split(many.curves, ends[1])
    )
    columns = (*many.figures.tolist(), many.k.tolist(), indices, curves)
    return [One(*one, many.warnings) for one in zip(*columns, strict=False)]


def best(p, terms):
    (found,) = sets_of(select(p, terms))
    return found


def is_best_of_all(found, vectors, weights, terms):
    """Its figures are those of the set by enumeration, no set is better, and none of k items is
    better than its curve.

    Where the AUC has a choice, it takes neither no item nor all.
    """
    n, loss = vectors.shape[1], terms.loss
    sets, *expected = expected_of_all_sets(vectors, weights, loss, empty=terms.empty)
    values, sizes = expected[0], sets.sum(axis=1)
    low, high = (min(1, n), max(min(1, n), n - 1)) if loss.name == "auc" else (0, n)
    at = (sets == np.isin(np.arange(n), found.indices)).all(axis=1).argmax()
    largest = max(1.0, np.abs(values).max())

    assert low <= found.k <= high
    assert found.expected_loss == pytest.approx(
        values[(sizes >= low) & (sizes <= high)].min(), abs=1e-13 * largest
    )
    figures = found.expected_loss, found.expected_recall, found.expected_precision
    assert figures == pytest.approx([one[at] for one in expected], abs=1e-13 * largest)
    assert found.error_bound < 1e-12 * largest * 1e3
    assert found.curve == pytest.approx(
        [values[sizes == k].min() for k in range(n + 1)], abs=1e-13 * largest
    )


@BOTH_WAYS
@example(p=[0.9, 0.8, 0.1], loss=losses.auc(), empty=0)
@given(p=PROBABILITIES, loss=LOSS, empty=st.sampled_from([0, 1]))
def test_no_set_is_better_than_the_one_selected(limit, p, loss, empty):
    terms = SetTerms(loss, empty=empty, curve=True)
    with pytest.MonkeyPatch.context() as patch:
        if p:
            patch.setattr("payoff.retrieval.selection.DP_LIMIT", limit)
        is_best_of_all(best(p, terms), *outcomes(p), terms)


@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any),
    loss=LOSS,
    empty=st.sampled_from([0, 1]),
)
def test_no_set_of_classes_is_better_than_the_one_selected(weights, loss, empty):
    """One of the classes is true."""
    p, terms = np.array(weights) / sum(weights), SetTerms(loss, empty=empty, curve=True)
    (found,) = sets_of(select_class_set(p[None], terms))
    is_best_of_all(found, np.eye(len(p), dtype=int), p, terms)


def test_classes_of_many_rows_are_independent_and_ties_keep_their_order():
    rows = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    many = sets_of(
        select_class_set(rows, SetTerms(losses.f_beta(), k_min=1, k_max=99, curve=True))
    )

    for i, row in enumerate(rows):
        [alone] = sets_of(
            select_class_set(row[None], SetTerms(losses.f_beta(), k_min=1, curve=True))
        )
        assert (many[i].expected_loss, many[i].curve.tolist()) == (
            alone.expected_loss,
            alone.curve.tolist(),
        )
    assert many[1].indices.tolist() == [0]
    assert many[2].indices.tolist() == list(range(many[2].k))


@given(p=st.lists(ONE, min_size=1, max_size=80), loss=LOSS, data=st.data())
def test_reordering_the_items_reorders_the_selection(p, loss, data):
    order = data.draw(st.permutations(range(len(p))))
    one, other = best(p, SetTerms(loss)), best([p[i] for i in order], SetTerms(loss))

    assert one.expected_loss == pytest.approx(
        other.expected_loss, abs=1e-14 + one.error_bound
    )
    assert [p[i] for i in one.indices] == [p[order[i]] for i in other.indices]


@example(p=[0.0], loss=losses.auc(), bounds=(1, 2))
@example(p=[0.9, 0.8, 0.1], loss=losses.auc(), bounds=(1, 70))
@example(p=[0.9, 0.8, 0.1], loss=losses.auc(), bounds=(1, 3))
@given(
    p=st.lists(ONE, min_size=1, max_size=60),
    loss=LOSS,
    bounds=st.tuples(st.integers(0, 60), st.integers(0, 70)),
)
def test_the_best_size_within_the_bounds_is_selected(p, loss, bounds):
    low, high = min(*bounds, len(p)), max(*bounds, 1)
    low = max(low, 1)
    unbounded = loss.name == "auc" and high > len(
        p
    )  # for the AUC a k_max beyond the items is no bound
    found = best(p, SetTerms(loss, k_min=low, k_max=high, curve=True))
    inside = found.curve[low : (max(low, len(p) - 1) if unbounded else high) + 1]

    assert found.k == low + int(np.argmin(inside))
    assert found.expected_loss == inside.min()
    assert found.warnings == ((AUC_WARNING,) if unbounded else ())


@pytest.mark.parametrize("n", [5, DP_LIMIT, 5000])
def test_ties_keep_the_callers_order(n):
    found = best(np.full(n, 0.5), SetTerms(losses.f_beta(), k_min=3))

    assert np.array_equal(found.indices, np.arange(found.k))


@pytest.mark.parametrize("curve", [False, True])
@pytest.mark.parametrize(
    "loss", [losses.g_mean(), losses.h_mean()], ids=lambda loss: loss.name
)
def test_an_unproven_search_gives_the_same_result_with_a_warning(
    loss, curve, monkeypatch
):
    p = np.full(4000, 0.03)
    proven = best(p, SetTerms(loss, curve=curve))
    monkeypatch.setattr("payoff.retrieval.windows.MOST_FULL_LAWS", 0)
    found = best(p, SetTerms(loss, curve=curve))

    assert proven.warnings == ()
    assert found.warnings == (UNPROVEN_WARNING,)
    assert found.k == proven.k
    assert found.expected_loss == pytest.approx(proven.expected_loss, abs=1e-14)
    if curve:
        np.testing.assert_allclose(found.curve, proven.curve, rtol=0, atol=2e-14)


@pytest.mark.parametrize(
    ("bounds", "place"),
    [({"k_min": 3}, "/k_min"), ({"k_min": 2, "k_max": 1}, "/k_min")],
)
def test_bounds_that_exclude_every_size_are_refused_by_place(bounds, place):
    with pytest.raises(Invalid) as refused:
        best([0.5, 0.5], SetTerms(losses.f_beta(), **bounds))

    assert [flaw.loc for flaw in refused.value.flaws] == [place]


def agree(p, sizes, loss, threads=None, **terms):
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    many = sets_of(select_many(p, offsets, SetTerms(loss, **terms), threads=threads))

    assert len(many) == len(sizes)
    for i in range(len(sizes)):
        one, found = (
            best(p[offsets[i] : offsets[i + 1]], SetTerms(loss, **terms)),
            many[i],
        )
        assert found.expected_loss == pytest.approx(one.expected_loss, abs=1e-13)
        if found.k == one.k:  # else two sizes that tie but for rounding
            assert np.array_equal(found.indices, one.indices)
            assert found.expected_recall == pytest.approx(
                one.expected_recall, abs=1e-13
            )
            assert found.expected_precision == pytest.approx(
                one.expected_precision, abs=1e-13
            )
        assert found.error_bound < 3e-12
        if terms.get("curve"):
            np.testing.assert_allclose(found.curve, one.curve, rtol=0, atol=1e-13)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 2, 3, 7, 20]), max_size=12),
    loss=st.sampled_from(OF_MANY),
    seed=st.integers(0, 1000),
    curve=st.booleans(),
    empty=st.integers(0, 1),
    k_max=st.sampled_from([None, 2, 99]),
)
def test_groups_get_the_same_sets_as_alone(sizes, loss, seed, curve, empty, k_max):
    rng = np.random.default_rng(seed)
    p = np.where(
        rng.random(sum(sizes)) < 0.3,
        rng.integers(0, 3, sum(sizes)) / 2,
        rng.random(sum(sizes)),
    )
    agree(p, sizes, loss, curve=curve, empty=empty, k_max=k_max)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("loss", OF_MANY, ids=lambda loss: loss.name)
def test_groups_around_the_limits_of_size_and_lanes(threads, loss):
    rng = np.random.default_rng(3)
    sizes = (
        [5] * (LANES + 1)
        + [DP_LIMIT, DP_LIMIT + 1, 200, 1, DP_LIMIT - 1]
        + [6] * (LANES - 1)
        + [8] * LANES
    )
    agree(rng.random(sum(sizes)) ** 2, sizes, loss, threads=threads, curve=True)


def test_an_unproven_search_of_a_large_group_adds_a_warning(monkeypatch):
    """Whichever of several threads searches it."""
    monkeypatch.setattr("payoff.retrieval.windows.MOST_FULL_LAWS", 0)
    p, offsets = np.full(2170, 0.05), [0, 2000, 2070, 2170]
    for threads in 1, 2:
        assert select_many(
            p, offsets, SetTerms(losses.g_mean()), threads=threads
        ).warnings == (UNPROVEN_WARNING,)


N = 20_000
RANDOM = np.random.default_rng(0)
CASES = {
    "uniform": RANDOM.random(N),
    "of all sizes": 10.0 ** RANDOM.uniform(-320, 0, N),
    "ties": RANDOM.integers(0, 50, N) / 49,
    "zeros and ones": RANDOM.integers(0, 2, N).astype(float),
    "both zeros": np.where(
        RANDOM.random(N) < 0.5, RANDOM.choice([0.0, -0.0], N), RANDOM.random(N)
    ),
    "all equal": np.full(N, 0.3),
    "falling": np.sort(RANDOM.random(N))[::-1].copy(),
    "rising": np.sort(RANDOM.random(N)),
    "neighbouring numbers": 0.5 + RANDOM.integers(0, 2**20, N) * 2.0**-53,
    "few": RANDOM.random(30),
    "one": np.array([0.4]),
    "none": np.array([]),
}


@pytest.mark.parametrize("p", CASES.values(), ids=CASES)
def test_the_order_is_that_of_a_stable_sort(p):
    order, ranked = descending(p)
    expected = np.argsort(-p, kind="stable")

    assert (order == expected).all()
    assert (ranked == p[expected]).all()


def test_the_least_probabilities_count_as_zero():
    """With denormal numbers the kernels took 21 to 61 times as long."""
    choice = select(np.array([0.0, 1e-310, 0.5]), SetTerms(LOSSES["f1"], k_min=3))

    assert choice.selected.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("name", "n", "p"),
    [
        ("mcc", 2000, 0.5),
        ("g_mean", 100_000, 1e-3),
        ("h_mean", 100_000, 1e-3),
        ("f1", 100_000, 1e-310),
        ("jaccard", 300, 1e-300),
        ("jaccard", 64, 1e-10),
    ],
)
def test_the_work_is_estimated_whatever_the_probabilities(name, n, p):
    """Within a factor of two on a quiet machine; it was 4 to 60 times the estimate."""
    sets = max(6400 // n, 1)
    items, offsets = np.full(n * sets, p), np.arange(sets + 1) * n
    terms = SetTerms(LOSSES[name])
    select_many(items[:n], offsets[:2], terms, threads=1)  # compiles
    times = []
    for _ in range(3):
        began = process_time()
        select_many(items, offsets, terms, threads=1)
        times.append(process_time() - began)

    sizes = np.diff(offsets)
    assert min(times) < 3.5 * seconds(sizes, sizes * p * (1 - p), terms) + 1e-3
