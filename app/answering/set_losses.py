"""Expected and realised losses of sets of labels, on the rows that a version held out."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from app.registry.loaded import Loaded
from payoff.decisions.row_weights import evenly
from payoff.errors import Invalid
from payoff.retrieval.losses import SetTerms
from payoff.retrieval.selection import select_many

# Without so many rows no expected loss is corrected: the difference is too uncertain.
_MIN_ROWS = 200
# Rows, and probabilities in them: they take a fraction of a second.
_MAX_ROWS = 2000
_MAX_PROBABILITIES = 100_000
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class SetLosses:
    """Mean losses of the best sets of some rows, and the standard error of their difference."""

    rows: int
    expected: float
    realised: float
    standard_error: float

    @property
    def correction(self) -> float | None:
        """The amount to add to an expected loss: the difference, the smaller the more of it may be
        noise.

        The positive-part estimate d max(0, 1 - s²/d²) of James and Stein, for a difference d of
        standard error s. None with too few rows.
        """
        if self.rows < _MIN_ROWS or not math.isfinite(self.standard_error):
            return None
        difference = self.realised - self.expected
        if not abs(difference) > self.standard_error:
            return 0.0
        return difference - self.standard_error**2 / difference

    @property
    def warning(self) -> str | None:
        """The caution that an expected loss needs; None where it agrees with the realised one."""
        if self.rows < _MIN_ROWS:
            return (
                "'expected_loss' assumes independent labels and has no 'correction':"
                f" it takes {_MIN_ROWS} rows held out, and {self.rows} could be used"
            )
        if (
            not abs(self.realised - self.expected)
            > _STANDARD_ERRORS * self.standard_error
        ):
            return None
        return (
            f"'expected_loss' assumes independent labels: on {self.rows} rows held out it was"
            f" {self.expected:.3f} on average, and the loss was {self.realised:.3f};"
            " 'correction' is for the mean of many sets, not for one"
        )


def set_losses(
    scores: np.ndarray,
    truth: np.ndarray,
    terms: SetTerms,
    weights: np.ndarray | None = None,
) -> SetLosses:
    """Expected and realised loss of the best sets under `terms`.

    scores, truth: (rows, labels), probabilities and 0 or 1, two rows or more, of which at most
    2,000 are used, as often as their `weights` (n,) say. Invalid where the terms cannot be met.
    """
    n, L = scores.shape
    count = max(min(n, _MAX_ROWS, _MAX_PROBABILITIES // L), 2)
    rows = evenly(np.ones(n) if weights is None else weights, count)
    P = np.ascontiguousarray(scores[rows], dtype=np.float64)
    Y = truth[rows]
    sets = select_many(P.ravel(), np.arange(count + 1) * L, replace(terms, curve=False))
    set_of_item = np.repeat(np.arange(count), sets.k)
    hits = np.bincount(set_of_item, Y[set_of_item, sets.selected], minlength=count)
    expected = sets.figures[0]
    realised = terms.loss.of_counts(hits, sets.k, Y.sum(axis=1), L, empty=terms.empty)
    # A fractional-linear loss has any magnitude.
    with np.errstate(over="ignore", invalid="ignore"):
        error = float(np.std(realised - expected, ddof=1)) / math.sqrt(count)
    return SetLosses(count, float(expected.mean()), float(realised.mean()), error)


def holdout_losses(model: Loaded) -> Callable[[SetTerms], SetLosses | None]:
    """The function from terms to `set_losses` on the hold-out, of no rows without a hold-out; None
    where the terms cannot be met there. Use `Loaded.once`: it caches.
    """
    holdout = model.holdout
    no_rows = SetLosses(0, math.nan, math.nan, math.inf)

    @lru_cache(maxsize=64)
    def losses(terms: SetTerms) -> SetLosses | None:
        try:
            return (
                no_rows
                if holdout is None
                else set_losses(holdout.scores, holdout.y, terms, holdout.row_weights)
            )
        except Invalid:
            return None

    return losses
