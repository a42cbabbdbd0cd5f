"""Rows assigned to columns at the least total loss, with limits on the size of each column.

This is a min-cost flow by successive shortest paths (Ahuja, Magnanti, Orlin, "Network Flows", 9.7).
Its nodes are the columns. Column 0 has no limits and is the sink, too: a column within its limits
may send a unit to it, or take one from it, at no loss. The arc a -> b otherwise moves a row from a
to b; the least loss of that is the top of a heap for each pair.
"""

import heapq

import numpy as np

from payoff.arrays import F64, I32, I64
from payoff.compiled import kernel

_EPS = 2.3e-16
# Entries are the loss, minus the row, and how often the row had moved.
Heap = list[tuple[float, np.int32, np.int32]]


@kernel
def _refresh(heap: Heap, moved: I32, loss: F64, row: I64, a: int, b: int) -> None:
    """Remove entries of rows that have moved since, and set `loss` and `row` of the arc a -> b."""
    while len(heap) > 0 and moved[-heap[0][1]] != heap[0][2]:
        heapq.heappop(heap)
    loss[a, b], row[a, b] = (heap[0][0], -heap[0][1]) if len(heap) > 0 else (np.inf, -1)


@kernel
def _heaps(D: F64, choice: I64) -> list[Heap]:
    """For each pair of columns the losses of moving rows from the first to the second."""
    m, n = D.shape
    heaps = [[(0.0, np.int32(0), np.int32(0)) for _ in range(0)] for _ in range(m * m)]
    for i in range(n):
        a = choice[i]
        for b in range(m):
            if b != a and D[b, i] < np.inf:
                heaps[a * m + b].append((D[b, i] - D[a, i], np.int32(-i), np.int32(0)))
    for heap in heaps:
        heapq.heapify(heap)
    return heaps


@kernel
def _move(
    D: F64, heaps: list[Heap], moved: I32, loss: F64, row: I64, i: int, a: int, b: int
) -> None:  # fmt: skip
    """Enter row i, which leaves column a, into the heaps of column b, and bring both columns' arcs
    up to date.
    """
    m = D.shape[0]
    moved[i] += 1
    for c in range(m):
        if c != b and D[c, i] < np.inf:
            heapq.heappush(
                heaps[b * m + c], (D[c, i] - D[b, i], np.int32(-i), moved[i])
            )
            _refresh(heaps[b * m + c], moved, loss, row, b, c)
    for c in range(m):
        if c != a:
            _refresh(heaps[a * m + c], moved, loss, row, a, c)


@kernel
def _relax(
    loss: F64, flow: I64, lower: I64, upper: I64, reached: F64, large: F64, parent: I64, free: I64
) -> None:  # fmt: skip
    """Bellman-Ford from the nodes with `reached` 0; `free` marks nodes that are entered without
    moving a row.

    `large` is the largest loss on the path: a path counts as shorter only where it is by more than
    the rounding of sums with that loss, so that no cycle seems to be negative.
    """
    m = loss.shape[0]
    for _ in range(m):
        changed = False
        for arc in range(m * m):
            a, b = arc // m, arc % m
            if a == b or reached[a] == np.inf:
                continue
            step = loss[a, b]
            room, spare = b == 0 and flow[a] < upper[a], a == 0 and flow[b] > lower[b]
            unmoved = step >= 0.0 and (room or spare)
            if unmoved:
                step = 0.0
            size = max(large[a], abs(step))
            if reached[a] + step < reached[b] - m * m * _EPS * max(size, large[b]):
                reached[b], large[b], parent[b], free[b] = (
                    reached[a] + step,
                    size,
                    a,
                    unmoved,
                )
                changed = True
        if not changed:
            break


@kernel
def _path(excess: I64, reached: F64, parent: I64, nodes: I64) -> int:
    """Write the path from the nearest column of too few rows back to a column of too many.

    Returns its number of arcs, -1 where there is none.
    """
    m = len(excess)
    nodes[0] = -1
    for a in range(m):
        if (
            excess[a] < 0
            and reached[a] < np.inf
            and (nodes[0] < 0 or reached[a] < reached[nodes[0]])
        ):
            nodes[0] = a
    if nodes[0] < 0:
        return -1
    for length in range(m):
        if parent[nodes[length]] < 0:
            return length
        nodes[length + 1] = parent[nodes[length]]
    return -1


@kernel
def assign(D: F64, choice: I64, lower: I64, upper: I64) -> bool:
    """Change `choice` (n,), the column of the least loss of each row, to the least total loss with
    counts within limits.

    Losses are D (m, n) >= 0. `lower` and `upper` (m,) are counts; those of column 0 are not read,
    and its losses may be infinite. Of rows with the same losses the later ones move first. False
    if the limits allow no assignment. O((n + moves) m log n + paths m^3); at most n paths, nearly
    always of one or two moves.
    """
    m, n = D.shape
    count, flow, excess = (
        np.zeros(m, np.int64),
        np.zeros(m, np.int64),
        np.zeros(m, np.int64),
    )
    moved, loss, row = (
        np.zeros(n, np.int32),
        np.empty((m, m)),
        np.empty((m, m), np.int64),
    )
    for i in range(n):
        count[choice[i]] += 1
    for a in range(m):
        flow[a] = min(max(count[a], lower[a]), upper[a])
        if a > 0:
            excess[a] = count[a] - flow[a]
            excess[0] -= excess[a]
    heaps = _heaps(D, choice)
    for arc in range(m * m):
        _refresh(heaps[arc], moved, loss, row, arc // m, arc % m)
    reached, large = np.empty(m), np.empty(m)
    parent, free = np.empty(m, np.int64), np.empty(m, np.int64)
    nodes, rows = np.empty(m + 1, np.int64), np.empty(m, np.int64)
    while True:
        open_columns = 0
        for a in range(m):
            open_columns += excess[a] > 0
            reached[a], large[a], parent[a] = 0.0 if excess[a] > 0 else np.inf, 0.0, -1
        if open_columns == 0:
            return True
        _relax(loss, flow, lower, upper, reached, large, parent, free)
        length = _path(excess, reached, parent, nodes)
        if length < 0:
            return False
        excess[nodes[0]] += 1
        excess[nodes[length]] -= 1
        # All rows of the path are known before the first one moves, which changes the heaps.
        for k in range(length):
            rows[k] = row[nodes[k + 1], nodes[k]]
        for k in range(length):
            a, b = nodes[k + 1], nodes[k]
            if free[b]:
                flow[a] += b == 0
                flow[b] -= a == 0
            else:
                choice[rows[k]] = b
                _move(D, heaps, moved, loss, row, rows[k], a, b)
