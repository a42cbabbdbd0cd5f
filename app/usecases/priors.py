"""Class priors of a request: stated, or estimated from the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from app.decisions.priors import as_priors, shift_priors
from app.errors import Flaw, Invalid, below, pointer
from app.evidence.priors import estimate_priors
from app.text import some_of

FEWEST = 50  # instances that shares of classes are estimated from
_MOST_WORK = 2_000_000_000  # instances times classes cubed; takes some seconds
_WIDE = 0.2  # interval of a share
_LEVEL = 0.05  # at which the shares in training are given up for estimated ones


Wanted = Mapping[str, float] | Literal["estimate"]


@dataclass(frozen=True)
class Corrected:
    """Priors in use (K,), None for those of training; posteriors under them (n, K); what the answer says of them."""

    priors: np.ndarray | None
    P: np.ndarray
    warnings: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def corrected(P: np.ndarray, classes: Sequence[object], base: np.ndarray | None, wanted: Wanted | None) -> Corrected:
    """The posteriors P (n, K), made with the priors `base` (K,), under the wanted ones; Invalid at or below /priors.

    Without either they stay as they are.
    """
    if wanted is None or base is None:
        return Corrected(None, P)
    if isinstance(wanted, str):
        return _estimated(P, [str(name) for name in classes], base)
    return Corrected(*shifted(P, classes, base, wanted))


def smoothed(counts: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Shares (K,) for counts (K,), half a row added to each class that is `possible` (Jeffreys' prior).

    A class that happens to be absent would get the share 0, and no instance could ever be decided for it.
    """
    added = np.where(possible, counts + 0.5, 0.0)
    return np.asarray(added / added.sum())


def _estimated(P: np.ndarray, names: Sequence[str], base: np.ndarray) -> Corrected:
    """The posteriors under the shares that make the batch most likely, which the answer reports with intervals.

    Where the batch does not contradict the shares in training, these are used: in small batches of a model that tells
    little, the noise of the estimate would cost more than the correction earns.
    """
    n, K = P.shape
    if n < FEWEST:
        raise Invalid.at("/priors", f"estimating priors needs {FEWEST} instances at least; this batch has {n}")
    if n * K**3 > _MOST_WORK:
        raise Invalid.at("/priors", f"estimating priors of {K} classes takes at most {_MOST_WORK // K**3:,} instances")
    found = estimate_priors(P, base)
    kept = found.p_value >= _LEVEL
    used = base if kept else smoothed(n * found.priors, base > 0)
    rows = zip(names, used.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    figures = {name: {"prior": prior, "low": low, "high": high} for name, prior, low, high in rows}
    wide = [name for name, each in figures.items() if each["high"] - each["low"] > _WIDE]
    warnings = [f"the batch hardly tells the share of {some_of(wide, 5)}: see estimated_priors"] if wide else []
    if kept:
        warnings.insert(0, "the batch does not contradict the class shares in training, which are kept")
    shifted_P, notes = (P, []) if kept else shift_priors(P, base, used)
    return Corrected(used, shifted_P, [*warnings, *notes], {"estimated_priors": figures})


def stated(priors: Mapping[str, float], names: Sequence[str]) -> np.ndarray:
    """Class priors as sent (K,); Invalid at or below /priors."""
    with below("/priors"):
        return as_priors(priors, names)


def shifted(
    P: np.ndarray, classes: Sequence[object], base: np.ndarray, priors: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Class priors as sent (K,), the posteriors P (n, K), made with the priors `base` (K,), under them, and warnings;
    Invalid below /priors.
    """
    names = [str(name) for name in classes]
    used = stated(priors, names)
    try:
        return used, *shift_priors(P, base, used)
    except Invalid as error:  # its places are numbers of classes
        flaws = [Flaw(pointer("priors", names[int(flaw.loc[1:])]), flaw.msg) for flaw in error.flaws]
        raise Invalid(error.detail, flaws) from error
