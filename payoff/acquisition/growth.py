"""One tree that asks for cheap features first, grown greedily over binned columns.

Names are the paper's: F the impurity, c the prices. A node's rows stand together in `rows`, `ys`
(class) and `ws` (how often drawn); splitting partitions them in place. Per node and feature the
class counts of each bin go into `hist`; only bins that occur are visited, and a feature that is
constant in a node is not looked at again below it.
"""

from dataclasses import dataclass

import numpy as np

from payoff.acquisition.nodes import Tree
from payoff.arrays import F64, I32, I64, U8, Ints
from payoff.compiled import copy, kernel

MAX_BINS = 255  # codes 0…254 in one byte
MISSING = 255  # the code of a missing value


@dataclass(frozen=True, eq=False)
class BinnedTable:
    """n rows of m columns as `codes` (m, n) uint8; `low`, `high` (m, 255): the ends of the bins."""

    codes: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bin_columns(X: np.ndarray) -> BinnedTable:
    """Bins of float64 `X` (n, m), NaN where missing.

    A column of at most 255 different values has one bin per value, so that nothing is lost; a
    longer one is cut at its quantiles. O(m n log n), one byte per cell and one column of floats at
    a time.
    """
    n, m = X.shape
    table = BinnedTable(
        np.empty((m, n), dtype=np.uint8),
        np.zeros((m, MAX_BINS)),
        np.zeros((m, MAX_BINS)),
    )
    for j in range(m):
        column = X[:, j]
        values = np.unique(column[~np.isnan(column)])
        last = values if len(values) <= MAX_BINS else _quantiles(column)
        table.codes[j] = np.searchsorted(last, column)
        table.codes[j, np.isnan(column)] = MISSING
        if len(values):
            first = values[
                np.concatenate(([0], np.searchsorted(values, last[:-1], side="right")))
            ]
            table.low[j, : len(last)] = first
            table.high[j, : len(last)] = last
    return table


def _quantiles(column: np.ndarray) -> np.ndarray:
    """The largest value of each bin, ascending: values of the column, the last one its maximum."""
    known = np.sort(column[~np.isnan(column)])
    places = (np.arange(1, MAX_BINS + 1) * len(known)) // MAX_BINS - 1
    return np.unique(known[places])


_UNLIMITED = 2**31 - 1


def grow_tree(
    table: BinnedTable, y: np.ndarray, drawn: np.ndarray, n_classes: int, prices: np.ndarray,
    alpha: float = 0.0, max_depth: int | None = None,
) -> Tree:  # fmt: skip
    """GreedyTree: each split has the least price per guaranteed drop of impurity.

    `table` of n rows and m columns, y (n,) class codes, drawn (n,) how often each row counts
    (integers >= 0), prices (m,). At each node the split (feature and threshold) with the smallest
    `c(t) / (F(S) - max(F(left), F(right)))` is taken, F being threshold-pairs with `alpha`; equal
    risks go to the larger drop, then to the feature used last on the path (it is paid for), then to
    the earlier feature, then to missing values on the right, then to the smaller threshold. A
    feature keeps its price in this rule also where it is already on the path: free repeats make
    trees that ask for the same feature over and over. Zero prices count as the smallest price above
    zero, for the same reason. A node is a leaf when F is 0, at `max_depth`, or where no split
    lowers F. A plain function of arrays, so that any joblib backend can run it. O(rows x varying
    features) per level of the tree; memory 1 byte per cell.
    Source: Nan, Wang, Saligrama (2015), algorithm 1, subroutine GreedyTree.
    """
    rows = np.flatnonzero(drawn)
    paid = prices[prices > 0]
    floor = paid.min() if len(paid) else 1.0
    c = np.maximum(prices, floor).astype(np.float64)
    return Tree(
        *grow(
            np.ascontiguousarray(table.codes[:, rows]), table.low, table.high,
            np.arange(len(rows), dtype=np.int32), y[rows].astype(np.int32),
            drawn[rows].astype(np.int32), c, n_classes, float(alpha),
            _UNLIMITED if max_depth is None else max_depth,
        )
    )  # fmt: skip


@kernel
def threshold_pairs(counts: Ints, alpha: float) -> float:
    """Sum over ordered pairs of classes i != j of `[[n_i - a]+ [n_j - a]+ - a²]+`.

    `counts` (K,) are numbers of examples per class, `alpha` >= 0. The result is at least 0, in
    squared examples, exact while it stays below 2**53; it is 0 for a pure set, never falls when an
    example is added, and rises the more the larger the set already is (monotone and supermodular,
    which the cost guarantee needs). O(K²).
    Source: Nan, Wang, Saligrama, "Feature-Budgeted Random Forest" (2015), equation 11, its minus
    signs restored.
    """
    total = 0.0
    square = alpha * alpha
    for i in range(counts.shape[0]):
        excess = counts[i] - alpha
        if excess <= 0.0:
            continue
        for j in range(i):
            excess_j = counts[j] - alpha
            if excess_j > 0.0:
                total += max(0.0, excess * excess_j - square)
    return 2.0 * total


SORTED_ROWS = 48  # up to so many rows, sorting the bins that occur is faster than a scan of all 256
_STACK = 64  # the smaller child is grown first, so that the waiting ones are at most log2(rows)


@kernel
def _fill(
    code: U8, rows: I32, ys: I32, ws: I32, hist: I32, drawn: I32,
    bins: I32,
) -> int:  # fmt: skip
    """Count rows per bin and class; write the bins that occur to `bins`, ascending; count these."""
    n = rows.shape[0]
    n_bins = 0
    if n > SORTED_ROWS:
        for i in range(n):
            b = code[rows[i]]
            hist[b, ys[i]] += ws[i]
            drawn[b] += ws[i]
        for b in range(256):
            if drawn[b] > 0:
                bins[n_bins] = b
                n_bins += 1
        return n_bins
    for i in range(n):
        b = code[rows[i]]
        hist[b, ys[i]] += ws[i]
        if drawn[b] == 0:
            place = n_bins
            while place > 0 and bins[place - 1] > b:
                bins[place] = bins[place - 1]
                place -= 1
            bins[place] = b
            n_bins += 1
        drawn[b] += ws[i]
    return n_bins


@kernel
def _scan(
    hist: I32, bins: I32, cuts: int, total: I32, L: I64, R: I64, alpha: float
) -> tuple[float, int]:
    """The smallest max(F(left), F(right)) after bins[0], bins[1], …, of `cuts` places; its place.

    `L` are the counts on the left before the first bin. F(left) never falls and F(right) never
    rises along the way, so the search ends where they cross.
    """
    K = total.shape[0]
    nL = nR = sqL = sqR = np.int64(0)
    for k in range(K):
        R[k] = total[k] - L[k]
        nL += L[k]
        nR += R[k]
        sqL += L[k] * L[k]
        sqR += R[k] * R[k]
    best, at = np.inf, -1
    for i in range(cuts):
        b = bins[i]
        for k in range(K):
            h = np.int64(hist[b, k])
            if h > 0:
                sqL += h * (2 * L[k] + h)
                sqR -= h * (2 * R[k] - h)
                L[k] += h
                R[k] -= h
                nL += h
                nR -= h
        if alpha == 0.0:
            FL, FR = float(nL * nL - sqL), float(nR * nR - sqR)
        else:
            FL, FR = threshold_pairs(L, alpha), threshold_pairs(R, alpha)
        if max(FL, FR) < best:
            best, at = max(FL, FR), i
        if FL >= FR:
            break
    return best, at


@kernel
def _best_cut(
    hist: I32, bins: I32, n_bins: int, total: I32, L: I64, R: I64, alpha: float
) -> tuple[float, int, int, int]:
    """The cut whose impurer side is the purest.

    Returns the impurity of that side, the last bin on the left, the first bin on the right (-1:
    none), and 1 where missing values go left. Missing values are tried on the right, alone there
    too, and then on the left.
    """
    gaps = bins[n_bins - 1] == 255
    values = n_bins - 1 if gaps else n_bins
    L[:] = 0
    worst, at = _scan(hist, bins, values if gaps else values - 1, total, L, R, alpha)
    missing_left = 0
    if gaps:
        for k in range(total.shape[0]):
            L[k] = hist[255, k]
        worst_left, at_left = _scan(hist, bins, values - 1, total, L, R, alpha)
        if worst_left < worst:
            worst, at, missing_left = worst_left, at_left, 1
    if at < 0:
        return np.inf, -1, -1, 0
    following = bins[at + 1] if at + 1 < values else -1
    return worst, bins[at], following, missing_left


@kernel
def _partition(
    code: U8, last: int, missing_left: int, rows: I32, ys: I32, ws: I32
) -> int:
    """Bring the rows that go left to the front, and return their number."""
    i, j = 0, rows.shape[0] - 1
    while i <= j:
        b = code[rows[i]]
        if (b == 255 and missing_left == 1) or (b != 255 and b <= last):
            i += 1
        else:
            rows[i], rows[j] = rows[j], rows[i]
            ys[i], ys[j] = ys[j], ys[i]
            ws[i], ws[j] = ws[j], ws[i]
            j -= 1
    return i


@kernel
def _threshold(high: float, low: float) -> float:
    """The middle of two neighbouring values, below `low`, also where rounding would reach it."""
    middle = high / 2.0 + low / 2.0
    return middle if high <= middle < low else high


@kernel
def _best_split(
    codes: U8, rows: I32, ys: I32, ws: I32, active: I32, n_active: int,
    total: I32, c: F64, alpha: float, F: float,
    hist: I32, drawn: I32, bins: I32, L: I64, R: I64,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """The feature of the smallest risk c / (F - worst), or -1; its cut; how many features vary.

    Equal risks go to the larger drop of F, then to the earlier feature in `active`, which is
    compacted in place.
    """
    risk, gain = np.inf, 0.0
    feature, last, following, missing_left = -1, -1, -1, 0
    varying = 0
    for a in range(n_active):
        f = active[a]
        n_bins = _fill(codes[f], rows, ys, ws, hist, drawn, bins)
        if n_bins > 1:
            active[varying] = f
            varying += 1
            worst, b, b_next, side = _best_cut(hist, bins, n_bins, total, L, R, alpha)
            drop = F - worst
            if drop > 0.0 and (
                c[f] / drop < risk or (c[f] / drop == risk and drop > gain)
            ):
                risk, gain = c[f] / drop, drop
                feature, last, following, missing_left = f, b, b_next, side
        for i in range(n_bins):
            for k in range(total.shape[0]):
                hist[bins[i], k] = 0
            drawn[bins[i]] = 0
    return feature, last, following, missing_left, varying


@kernel
def _to_front(active: I32, n_active: int, f: int) -> None:
    """Bring feature f to the front: below, where it is paid for, it wins where risks are equal."""
    place = 0
    while place < n_active and active[place] != f:
        place += 1
    for a in range(place, 0, -1):
        active[a] = active[a - 1]
    active[0] = f


@kernel
def grow(
    codes: U8, low: F64, high: F64, rows: I32, ys: I32, ws: I32,
    c: F64, K: int, alpha: float, max_depth: int,
) -> tuple[I32, F64, I32, I32, I32, I32]:  # fmt: skip
    """GreedyTree: feature, threshold, left and right child, child of missing values, and counts.

    Each array has a place for each node; node 0 is the root.
    """
    m, n = codes.shape[0], rows.shape[0]
    capacity = 2 * n
    feature, missing = np.full(capacity, -1, np.int32), np.full(capacity, -1, np.int32)
    left_child, right_child = (
        np.full(capacity, -1, np.int32),
        np.full(capacity, -1, np.int32),
    )
    threshold, counts = np.zeros(capacity), np.zeros((capacity, K), np.int32)
    hist = np.zeros((256, K), np.int32)
    drawn, bins = np.zeros(256, np.int32), np.zeros(256, np.int32)
    L, R = np.zeros(K, np.int64), np.zeros(K, np.int64)
    waiting, active = np.zeros((_STACK, 5), np.int64), np.zeros((_STACK, m), np.int32)
    here = np.zeros(m, np.int32)
    for i in range(n):
        counts[0, ys[i]] += ws[i]
    for f in range(m):
        active[0, f] = f
    # Of a node that waits: its number, the first of its rows and the first after them, its depth,
    # and how many features vary.
    waiting[0, 2], waiting[0, 4] = n, m
    depth_of_stack, nodes = 1, 1
    while depth_of_stack > 0:
        depth_of_stack -= 1
        node, start, end, depth, n_active = waiting[depth_of_stack]
        copy(active[depth_of_stack, :n_active], here)
        F = threshold_pairs(counts[node], alpha)
        if F == 0.0 or depth >= max_depth:
            continue
        f, last, following, side, varying = _best_split(
            codes, rows[start:end], ys[start:end], ws[start:end], here, n_active, counts[node],
            c, alpha, F, hist, drawn, bins, L, R,
        )  # fmt: skip
        if f < 0:
            continue
        _to_front(here, varying, f)
        middle = start + _partition(
            codes[f], last, side, rows[start:end], ys[start:end], ws[start:end]
        )
        feature[node] = f
        threshold[node] = (
            np.inf if following < 0 else _threshold(high[f, last], low[f, following])
        )
        left_child[node], right_child[node] = nodes, nodes + 1
        for i in range(start, middle):
            counts[nodes, ys[i]] += ws[i]
        on_left = on_right = 0
        for k in range(K):
            counts[nodes + 1, k] = counts[node, k] - counts[nodes, k]
            on_left += counts[nodes, k]
            on_right += counts[nodes + 1, k]
        gaps = False
        for i in range(start, end):
            if codes[f, rows[i]] == 255:
                gaps = True
                break
        heavier = 0 if on_left >= on_right else 1
        missing[node] = nodes + (1 - side if gaps else heavier)
        small = 0 if middle - start <= end - middle else 1
        for child in (1 - small, small):
            waiting[depth_of_stack, 0] = nodes + child
            waiting[depth_of_stack, 1] = start if child == 0 else middle
            waiting[depth_of_stack, 2] = middle if child == 0 else end
            waiting[depth_of_stack, 3] = depth + 1
            waiting[depth_of_stack, 4] = varying
            copy(here[:varying], active[depth_of_stack])
            depth_of_stack += 1
        nodes += 2
    return (
        feature[:nodes].copy(), threshold[:nodes].copy(), left_child[:nodes].copy(),
        right_child[:nodes].copy(), missing[:nodes].copy(), counts[:nodes].copy(),
    )  # fmt: skip
