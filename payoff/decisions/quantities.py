"""Decisions about quantities: what the distribution of a number says of its quantiles, bands, and
costs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from payoff.decisions.benefit import TIE


class Samples(NamedTuple):
    """Distributions of c rows over S values each: `values` (c, S) ascending, and `reached` (c, S),
    or (1, S) for all rows: the probability of that value or less, 1 at the last. A row of fewer
    values repeats its last.
    """

    values: np.ndarray
    reached: np.ndarray


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of a number for each of n rows, and the numbers (n,) that are expected;
    `parts` gives those of some rows after the other, in order, so that they are never in memory
    together. Each answer goes through all of them: O(n S).
    """

    expected: np.ndarray
    parts: Callable[[], Iterable[Samples]]

    @property
    def n(self) -> int:
        return len(self.expected)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """For levels (T,), or (n, T) for each row its own: the smallest values (n, T) whose
        probability of that or less reaches the level. What falls short of it by rounding only
        (relatively `TIE * S`) reaches it.
        """
        levels = np.broadcast_to(
            np.asarray(levels, dtype=np.float64), (self.n, np.shape(levels)[-1])
        )

        def answer(rows: slice, samples: Samples) -> np.ndarray:
            enough = levels[rows] * (1.0 - TIE * samples.values.shape[1])
            places = [(samples.reached >= level[:, None]).argmax(axis=1) for level in enough.T]
            return np.take_along_axis(samples.values, np.column_stack(places), axis=1)

        return self._each(levels.shape[1], answer)

    def shares(self, cuts: np.ndarray) -> np.ndarray:
        """The probabilities (n, C + 1) of the bands between ascending cuts (C,): below the first,
        from the first to below the second, …, from the last on; each row sums to 1.
        """

        def answer(_: slice, samples: Samples) -> np.ndarray:
            return np.diff(
                np.column_stack([below(samples, cut) for cut in cuts]),
                axis=1,
                prepend=0.0,
                append=1.0,
            )

        return self._each(len(cuts) + 1, answer)

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

        return self._each(1, answer)[:, 0]

    def _each(self, width: int, answer: Callable[[slice, Samples], np.ndarray]) -> np.ndarray:
        found, start = np.empty((self.n, width)), 0
        for samples in self.parts():
            rows = slice(start, start + len(samples.values))
            found[rows] = answer(rows, samples)
            start = rows.stop
        return found


def below(samples: Samples, cuts: float | np.ndarray) -> np.ndarray:
    """The probability (c,) of less than a cut: one for all rows, or (c,)."""
    count = (samples.values < np.reshape(cuts, (-1, 1))).sum(axis=1, keepdims=True)
    last = np.take_along_axis(
        np.broadcast_to(samples.reached, samples.values.shape), np.maximum(count - 1, 0), axis=1
    )
    return np.asarray(np.where(count > 0, last, 0.0)[:, 0])
