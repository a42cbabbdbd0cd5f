"""Decisions about quantities: quantiles, bands and costs from the distribution of a number."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from payoff.decisions.benefit import TIE


class Samples(NamedTuple):
    """Distributions of c rows over S values each.

    `values` (c, S) ascend; `reached` (c, S), or (1, S) for all rows, is the probability of a value
    or less, 1 at the last. A row of fewer values repeats its last value.
    """

    values: np.ndarray
    reached: np.ndarray


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of a number for each of n rows, and the `expected` numbers (n,).

    `parts` returns the distributions in batches of rows, in order, so that they are never in memory
    together. Each method goes through all of them: O(n S).
    """

    expected: np.ndarray
    parts: Callable[[], Iterable[Samples]]

    @property
    def n(self) -> int:
        return len(self.expected)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """The quantiles (n, T) at levels (T,), or (n, T), different ones for each row.

        A quantile is the smallest value for which the probability of the value or less reaches the
        level. A probability reaches a level, too, that it misses by rounding only (relatively
        `TIE * S`).
        """
        levels = np.asarray(levels, dtype=np.float64)
        levels = np.broadcast_to(levels, (self.n, levels.shape[-1]))

        def answer(rows: slice, samples: Samples) -> np.ndarray:
            enough = levels[rows] * (1.0 - TIE * samples.values.shape[1])
            places = [
                (samples.reached >= level[:, None]).argmax(axis=1) for level in enough.T
            ]
            return np.take_along_axis(samples.values, np.column_stack(places), axis=1)

        return self._by_parts(levels.shape[1], answer)

    def shares(self, cuts: np.ndarray) -> np.ndarray:
        """The probabilities (n, C + 1) of the bands between ascending cuts (C,): below the first,
        from the first to below the second, …, from the last on; each row sums to 1.
        """

        def answer(_: slice, samples: Samples) -> np.ndarray:
            below_cuts = np.column_stack([below(samples, cut) for cut in cuts])
            return np.diff(below_cuts, axis=1, prepend=0.0, append=1.0)

        return self._by_parts(len(cuts) + 1, answer)

    def costs(
        self, quantity: np.ndarray, over: float | np.ndarray, under: float | np.ndarray
    ) -> np.ndarray:
        """The expected costs (n,) of a quantity (n,) at unit costs, numbers or (n,): `over`
        (quantity - number) where it is larger than the number, else `under` (number - quantity).
        """
        over, under = (np.broadcast_to(cost, self.n)[:, None] for cost in (over, under))

        def answer(rows: slice, samples: Samples) -> np.ndarray:
            gap = quantity[rows, None] - samples.values
            cost = np.where(gap > 0, over[rows], -under[rows]) * gap
            cost *= np.diff(samples.reached, axis=1, prepend=0.0)
            return np.asarray(cost.sum(axis=1, keepdims=True))

        return self._by_parts(1, answer)[:, 0]

    def _by_parts(
        self, width: int, answer: Callable[[slice, Samples], np.ndarray]
    ) -> np.ndarray:
        """The answers (n, width) for all rows, from those for the rows of each part."""
        answers = np.empty((self.n, width))
        start = 0
        for samples in self.parts():
            rows = slice(start, start + len(samples.values))
            answers[rows] = answer(rows, samples)
            start = rows.stop
        return answers


def below(samples: Samples, cuts: float | np.ndarray) -> np.ndarray:
    """The probabilities (c,) of values below a cut, a number for all rows or (c,)."""
    count = (samples.values < np.reshape(cuts, (-1, 1))).sum(axis=1, keepdims=True)
    reached = np.broadcast_to(samples.reached, samples.values.shape)
    last = np.take_along_axis(reached, np.maximum(count - 1, 0), axis=1)
    return np.asarray(np.where(count > 0, last, 0.0)[:, 0])
