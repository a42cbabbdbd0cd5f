"""Choose among calibrations by the log loss of rows that they did not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from app.decisions.calibration import FEW, fit_calibrator
from app.decisions.folds import stratified_folds
from app.learners._unseen import log_losses, mean_and_error

_FOLDS = 5
_CELLS = 30_000  # rows times classes that are enough to choose by: at most two seconds or so
_CLEAR = 1.5  # standard errors: with none or one the choice followed noise, with two it gave away half of the gain
_Candidate = TypeVar("_Candidate")


def best_calibration(P: np.ndarray, codes: np.ndarray, weights: np.ndarray, resolution: float = 0.0) -> str:
    """`sigmoid`, or `isotonic` or `none` where these are clearly better; arguments as of `fit_calibrator`.

    Isotonic curves need 20 rows of each class. The sigmoid comes first because with up to 1,000 rows of a class it was
    the best or as good on nearly all tables: see docs/explanation/defaults.md.
    """

    def answers(method: str, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        if method == "none":
            return np.asarray(P[outside])
        return fit_calibrator(method, P[inside], codes[inside], weights[inside], resolution).apply(P[outside])

    curves = ["isotonic"] if np.bincount(codes).min() >= FEW else []
    return first_unbeaten(["sigmoid", *curves, "none"], answers, codes, weights)


def first_unbeaten(
    candidates: Sequence[_Candidate],
    answers: Callable[[_Candidate, np.ndarray, np.ndarray], np.ndarray],
    codes: np.ndarray,
    weights: np.ndarray,
) -> _Candidate:
    """The first candidate whose log loss no other lowers by more than 1.5 standard errors of the difference.

    `answers` takes a candidate, the numbers of the rows to learn from, and those of the rows to answer; it returns
    their probabilities. There are five folds, of some 30,000 rows times classes at most.
    """
    best, *others = candidates
    if not others:
        return best
    some = _some(codes)
    fold = stratified_folds(codes[some], _FOLDS, 0)

    def losses(candidate: _Candidate) -> np.ndarray:
        found = np.zeros(len(some))  # rows in no fold tell nothing
        for number in np.unique(fold[fold >= 0]):
            outside = some[fold == number]
            P = answers(candidate, some[fold != number], outside)
            found[fold == number] = log_losses(P, codes[outside])
        return found

    least = losses(best)
    for other in others:
        tried = losses(other)
        gain, error = mean_and_error(least - tried, weights[some])
        if gain > _CLEAR * error:
            best, least = other, tried
    return best


def _some(codes: np.ndarray) -> np.ndarray:
    """The numbers of all rows, or of as many random ones as `_CELLS` allow, of each class its share or a few."""
    counts = np.bincount(codes)
    order = np.random.default_rng(0).permutation(len(codes))
    shares = np.maximum(FEW, counts * min(1.0, _CELLS / (len(codes) * len(counts)))).astype(np.intp)
    return np.concatenate([order[codes[order] == k][:most] for k, most in enumerate(shares)])
