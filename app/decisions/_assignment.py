"""Compiled: the assignment of rows to columns with the least total loss, under limits on the size of each column.

A min-cost flow by successive shortest paths (Ahuja, Magnanti, Orlin, "Network Flows", 9.7). Its nodes are the columns.
Column 0 has no limits and is the sink, too: a column within its limits may send a unit to it, or take one from it, at
no loss. The arc a -> b otherwise moves a row from a to b; the least loss of that is the top of a heap for each pair.
"""

from __future__ import annotations

import heapq

import numpy as np

from app.arrays import F64, I32, I64
from app.compiled import kernel

_EPS = 2.3e-16
_SPARE = 64  # entries of a heap that may be out of date
Heap = list[tuple[float, np.int32, np.int32]]  # loss, -row, and how often the row had moved


@kernel
def _refresh(heap: Heap, moved: I32, loss: F64, row: I64, a: int, b: int) -> None:
    """Remove entries of rows that have moved since; `loss` and `row` are then those of the arc a -> b."""
    while len(heap) > 0 and moved[-heap[0][1]] != heap[0][2]:
        heapq.heappop(heap)
    loss[a, b], row[a, b] = (heap[0][0], -heap[0][1]) if len(heap) > 0 else (np.inf, -1)


@kernel
def _heaps(D: F64, choice: I64) -> list[Heap]:
    """For each pair of columns what the rows of the first lose by moving to the second."""
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
    D: F64, heaps: list[Heap], moved: I32, count: I64, loss: F64, row: I64, i: int, a: int, b: int
) -> None:  # fmt: skip
    """Enter row i, which leaves column a, into the heaps of column b, and bring both columns' arcs up to date."""
    m = D.shape[0]
    count[a] -= 1
    count[b] += 1
    moved[i] += 1
    for c in range(m):
        if c != b and D[c, i] < np.inf:
            heap = heaps[b * m + c]
            if len(heap) > 2 * count[b] + _SPARE:
                heap = [entry for entry in heap if moved[-entry[1]] == entry[2]]
                heapq.heapify(heap)
                heaps[b * m + c] = heap
            heapq.heappush(heap, (D[c, i] - D[b, i], np.int32(-i), moved[i]))
            _refresh(heap, moved, loss, row, b, c)
    for c in range(m):
        if c != a:
            _refresh(heaps[a * m + c], moved, loss, row, a, c)


@kernel
def _relax(
    loss: F64, flow: I64, lower: I64, upper: I64, reached: F64, large: F64, parent: I64, free: I64
) -> None:  # fmt: skip
    """Bellman-Ford from the nodes with `reached` 0; `free` marks nodes that are entered without moving a row.

    `large` is the largest loss on the way: a path counts as shorter only by more than the rounding of sums with it, so
    that no cycle seems to be negative.
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
                reached[b], large[b], parent[b], free[b] = reached[a] + step, size, a, unmoved
                changed = True
        if not changed:
            break


@kernel
def _path(excess: I64, reached: F64, parent: I64, nodes: I64) -> int:
    """Write the way from the nearest column of too few rows back to one of too many; returns its arcs, -1 for none."""
    m = len(excess)
    nodes[0] = -1
    for a in range(m):
        if excess[a] < 0 and reached[a] < np.inf and (nodes[0] < 0 or reached[a] < reached[nodes[0]]):
            nodes[0] = a
    if nodes[0] < 0:
        return -1
    for arcs in range(m):
        if parent[nodes[arcs]] < 0:
            return arcs
        nodes[arcs + 1] = parent[nodes[arcs]]
    return -1


@kernel
def assign(D: F64, choice: I64, lower: I64, upper: I64) -> bool:
    """Change `choice` (n,), the least of each row of losses D (m, n) >= 0, to the least total with counts in bounds.

    `lower` and `upper` (m,) are counts; those of column 0 are not read, and its losses may be infinite. Of rows with
    the same losses the later ones move first. False if the bounds allow no assignment. O((n + moves) m log n +
    paths m^3); at most n paths, nearly always of one or two moves.
    """
    m, n = D.shape
    count, flow, excess = np.zeros(m, np.int64), np.zeros(m, np.int64), np.zeros(m, np.int64)
    moved, loss, row = np.zeros(n, np.int32), np.empty((m, m)), np.empty((m, m), np.int64)
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
    reached, large, parent, free = np.empty(m), np.empty(m), np.empty(m, np.int64), np.empty(m, np.int64)
    nodes, rows = np.empty(m + 1, np.int64), np.empty(m, np.int64)
    while True:
        open_columns = 0
        for a in range(m):
            open_columns += excess[a] > 0
            reached[a], large[a], parent[a] = 0.0 if excess[a] > 0 else np.inf, 0.0, -1
        if open_columns == 0:
            return True
        _relax(loss, flow, lower, upper, reached, large, parent, free)
        arcs = _path(excess, reached, parent, nodes)
        if arcs < 0:
            return False
        excess[nodes[0]] += 1
        excess[nodes[arcs]] -= 1
        for k in range(arcs):  # before any row moves: the heaps change then
            rows[k] = row[nodes[k + 1], nodes[k]]
        for k in range(arcs):
            a, b = nodes[k + 1], nodes[k]
            if free[b]:
                flow[a] += b == 0
                flow[b] -= a == 0
            else:
                choice[rows[k]] = b
                _move(D, heaps, moved, count, loss, row, rows[k], a, b)
