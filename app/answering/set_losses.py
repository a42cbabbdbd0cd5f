"""What sets of labels were expected to cost, and what they cost, on the rows that a version held out."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from app.registry.loaded import Loaded
from payoff.errors import Invalid
from payoff.retrieval.losses import SetTerms
from payoff.retrieval.selection import select_many

_MIN_ROWS = 200  # rows without which no promise is corrected: the difference is too uncertain
_MAX_ROWS = 2000  # rows, and probabilities in them: a fraction of a second
_CELLS = 100_000
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Promise:
    """Mean losses of the best sets of some rows, and the standard error of their difference."""

    rows: int
    expected: float
    realised: float
    standard_error: float

    @property
    def correction(self) -> float | None:
        """What to add to an expected loss: the difference, the smaller the more of it may be noise.

        The positive-part estimate d max(0, 1 - s²/d²) of James and Stein, for a difference d of standard error s. None
        with too few rows.
        """
        difference = self.realised - self.expected
        if self.rows < _MIN_ROWS or not math.isfinite(self.standard_error):
            return None
        return (
            difference - self.standard_error**2 / difference
            if abs(difference) > self.standard_error
            else 0.0
        )

    @property
    def warning(self) -> str | None:
        """What a reader of an expected loss has to know; None where it is as good as realised."""
        if self.rows < _MIN_ROWS:
            return (
                "'expected_loss' assumes independent labels and has no 'correction':"
                f" it takes {_MIN_ROWS} rows held out, and {self.rows} could be used"
            )
        if not abs(self.realised - self.expected) > _STANDARD_ERRORS * self.standard_error:
            return None
        return (
            f"'expected_loss' assumes independent labels: on {self.rows} rows held out it was {self.expected:.3f} on"
            f" average, and the loss was {self.realised:.3f}; 'correction' is for the mean of many sets, not for one"
        )


def kept_promises(scores: np.ndarray, truth: np.ndarray, terms: SetTerms) -> Promise:
    """Expected and realised loss of the best sets under `terms`.

    scores, truth: (rows, labels), probabilities and 0 or 1, two rows or more; some 2,000 rows at most are used. Invalid
    where the terms cannot be met.
    """
    n, L = scores.shape
    room = max(min(n, _MAX_ROWS, _CELLS // L), 2)
    rows = np.linspace(0, n - 1, room).astype(np.intp)
    P, Y = np.ascontiguousarray(scores[rows], dtype=np.float64), truth[rows]
    found = select_many(P.ravel(), np.arange(room + 1) * L, replace(terms, curve=False))
    of = np.repeat(np.arange(room), found.k)
    hits = np.bincount(of, Y[of, found.selected], minlength=room)
    expected = found.figures[0]
    realised = terms.loss.of_counts(hits, found.k, Y.sum(axis=1), L, empty=terms.empty)
    with np.errstate(over="ignore", invalid="ignore"):  # a fractional-linear loss has any magnitude
        error = float(np.std(realised - expected, ddof=1)) / math.sqrt(room)
    return Promise(room, float(expected.mean()), float(realised.mean()), error)


def promiser(model: Loaded) -> Callable[[SetTerms], Promise | None]:
    """What `kept_promises` finds on the hold-out, of no rows without one; None where the terms cannot be met there."""
    holdout = model.holdout
    none = Promise(0, math.nan, math.nan, math.inf)

    @lru_cache(maxsize=64)
    def find(terms: SetTerms) -> Promise | None:
        try:
            return none if holdout is None else kept_promises(holdout.scores, holdout.y, terms)
        except Invalid:
            return None

    return find
