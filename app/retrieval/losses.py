"""The losses of a retrieved set, given how many of its items are relevant.

Every loss is a function of four counts of one outcome: relevant and retrieved (`tp`), retrieved (`k`), relevant
(`positives`) and all items (`n`). The definitions are Table 1 of Natarajan et al., "Optimal Classification with
Multivariate Losses" (ICML 2016), written in counts, and completed for 0/0:

- the rate of an absent class is 1: TPR where nothing is relevant, TNR where everything is;
- F, Jaccard and G-TP/PR with nothing relevant and nothing retrieved are `empty`: 0 (a correct "nothing") or 1;
- H-Mean with TPR = TNR = 0 is 1;
- a fractional-linear loss whose numerator and denominator both vanish is `empty`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from app.errors import Flaw, Invalid, pointer, reject, unknown

DEFAULT_BETA = 1.0  # counts recall and precision alike
LARGEST_BETA = 1e150  # its square is still a float
LARGEST_COEFFICIENT = 1e100  # sums over any number of items, and quotients of two of them, stay far from overflow
NEARLY_ZERO = 1e-12  # a sum this small beside its terms may be rounding alone


@dataclass(frozen=True)
class Loss:
    """One loss, hashable and comparable; `parse_loss` checks the parameters."""

    name: str
    beta: float | None = None
    c: tuple[float, ...] | None = None
    d: tuple[float, ...] | None = None

    @property
    def square(self) -> float:
        """β²."""
        return (self.beta or DEFAULT_BETA) ** 2

    def of_counts(self, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: int, *, empty: int = 0) -> np.ndarray:
        """The loss of single outcomes: counts that broadcast, 0 <= tp <= min(k, positives); returns float64."""
        counts = np.broadcast_arrays(*(np.asarray(count, dtype=np.float64) for count in (tp, k, positives)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(LOSSES[self.name].of_counts(self, *counts, float(n), float(empty)))

    def as_json(self) -> dict[str, Any]:
        """The object that `parse_loss` reads."""
        given = {"name": self.name, "beta": self.beta, "c": self.c, "d": self.d}
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in given.items() if value is not None
        }


@dataclass(frozen=True)
class LossSpec:
    """A kind of loss: `of_counts(loss, tp, k, positives, n, empty)` is its value; `parameters` are their names."""

    name: str
    of_counts: Callable[..., np.ndarray]
    parameters: tuple[str, ...] = ()


def parse_loss(given: Mapping[str, Any]) -> Loss:
    """Read `{"name": …}` with `beta` or `c` and `d`; raises Invalid with places such as `/beta` and `/c/2`."""
    if not isinstance(given, Mapping):
        raise Invalid.at("", 'the loss must be an object such as {"name": "f_beta", "beta": 1}')
    name = given.get("name")
    if not isinstance(name, str) or name not in LOSSES:
        raise Invalid.at("/name", f"the name of the loss must be one of {', '.join(map(repr, LOSSES))}")
    allowed = {"name", *LOSSES[name].parameters}
    strange = (key for key in given if key not in allowed)
    unknown_keys = (Flaw(pointer(key), unknown(f"{name} parameter", key, sorted(allowed))) for key in strange)
    flaws: list[Flaw] = []
    beta = _beta(given.get("beta", DEFAULT_BETA), flaws) if name == "f_beta" else None
    c, d = (_coefficients(given, key, flaws) if name == "fractional_linear" else None for key in ("c", "d"))
    reject(chain(unknown_keys, flaws))
    return Loss(name, beta=beta, c=c, d=d)


def check_empty(empty: int) -> int:
    """`empty` is 0 or 1; anything else is Invalid at `/empty`."""
    if isinstance(empty, bool) or empty not in (0, 1):
        raise Invalid.at(
            "/empty", "'empty', the loss where nothing is relevant and nothing is retrieved, must be 0 or 1"
        )
    return int(empty)


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return real and (isinstance(value, int) or math.isfinite(value))  # an integer may be outside the range of a float


def _beta(value: Any, flaws: list[Flaw]) -> float:
    if _is_number(value) and 1 / LARGEST_BETA <= value <= LARGEST_BETA:
        return float(value)
    msg = f"'beta' must be a number from {1 / LARGEST_BETA} to {LARGEST_BETA}; 1 weighs recall and precision alike"
    flaws.append(Flaw("/beta", msg))
    return DEFAULT_BETA


def _coefficients(given: Mapping[str, Any], key: str, flaws: list[Flaw]) -> tuple[float, ...]:
    values = given.get(key)
    if not isinstance(values, list | tuple | np.ndarray) or len(values) != 4:
        flaws.append(
            Flaw(
                pointer(key),
                f"{key!r} must be four numbers, for {key}0 + {key}1 tp/n + {key}2 k/n + {key}3 positives/n",
            )
        )
        return ()
    bad = [Flaw(pointer(key, i), _COEFFICIENT) for i, value in enumerate(values) if not _is_coefficient(value)]
    flaws.extend(bad)
    return () if bad else tuple(float(value) for value in values)


def _is_coefficient(value: Any) -> bool:
    return _is_number(value) and (value == 0 or 1 / LARGEST_COEFFICIENT <= abs(value) <= LARGEST_COEFFICIENT)


def _rates(tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    negatives = n - positives
    tpr = np.where(positives > 0, tp / positives, 1.0)
    tnr = np.where(negatives > 0, (negatives - k + tp) / negatives, 1.0)
    return tpr, tnr


def _f_beta(loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, _n: float, empty: float) -> np.ndarray:
    return np.where(positives + k > 0, 1 - (1 + loss.square) * tp / (loss.square * positives + k), empty)


def _jaccard(_loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, _n: float, empty: float) -> np.ndarray:
    return np.where(positives + k > 0, (positives + k - 2 * tp) / (positives + k - tp), empty)


def _am(_loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: float, _empty: float) -> np.ndarray:
    tpr, tnr = _rates(tp, k, positives, n)
    return np.asarray(1 - (tpr + tnr) / 2)


def _g_tp_pr(_loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, _n: float, empty: float) -> np.ndarray:
    both = np.where(positives * k > 0, 1 - tp / np.sqrt(positives * k), 1.0)
    return np.where(positives + k > 0, both, empty)


def _g_mean(_loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: float, _empty: float) -> np.ndarray:
    tpr, tnr = _rates(tp, k, positives, n)
    return np.asarray(1 - np.sqrt(tpr * tnr))


def _h_mean(_loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: float, _empty: float) -> np.ndarray:
    tpr, tnr = _rates(tp, k, positives, n)
    return np.asarray(1 - np.where(tpr + tnr > 0, 2 * tpr * tnr / (tpr + tnr), 0.0))


def _auc(_loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: float, _empty: float) -> np.ndarray:
    pairs = positives * (n - positives)
    return np.where(pairs > 0, (k - tp) * (positives - tp) / pairs, 0.0)


def _fractional_linear(
    loss: Loss, tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: float, empty: float
) -> np.ndarray:
    c, d = loss.c or (0.0,) * 4, loss.d or (1.0,) * 4
    above, below = (np.asarray(x[0] * n + x[1] * tp + x[2] * k + x[3] * positives) for x in (c, d))
    near = np.abs(below) <= NEARLY_ZERO * absolute_sum(d, (n, tp, k, positives))
    if near.any():  # rounding hides whether they are zero
        counts = np.column_stack([np.full(int(near.sum()), n), tp[near], k[near], positives[near]]).astype(np.int64)
        exact, scale = exact_sums(d, counts)
        below[near] = [value / scale for value in exact]
    return np.where(below != 0, above / below, empty)


def absolute_sum(d: tuple[float, ...], counts: Sequence[float | np.ndarray]) -> np.ndarray:
    """The sum of the absolute terms of a fractional-linear denominator at counts (n, tp, k, positives)."""
    return np.asarray(sum(abs(value) * count for value, count in zip(d, counts, strict=True)))


def exact_sums(coefficients: tuple[float, ...], counts: np.ndarray) -> tuple[list[int], int]:
    """The sums of coefficients times counts (rows of four), exactly: integers and their common divisor."""
    ratios = [value.as_integer_ratio() for value in coefficients]
    scale = max(below for _, below in ratios)  # all are powers of 2
    whole = [above * (scale // below) for above, below in ratios]
    return [sum(x * count for x, count in zip(whole, row, strict=True)) for row in counts.tolist()], scale


_COEFFICIENT = (
    f"a coefficient must be 0, or a number of magnitude from {1 / LARGEST_COEFFICIENT} to {LARGEST_COEFFICIENT}"
)
LOSSES = {
    spec.name: spec
    for spec in (
        LossSpec("f_beta", _f_beta, ("beta",)),
        LossSpec("jaccard", _jaccard),
        LossSpec("am", _am),
        LossSpec("g_tp_pr", _g_tp_pr),
        LossSpec("g_mean", _g_mean),
        LossSpec("h_mean", _h_mean),
        LossSpec("auc", _auc),
        LossSpec("fractional_linear", _fractional_linear, ("c", "d")),
    )
}
"""All losses by name, in the order in which messages and documents list them."""
