"""What other ways to decide would have earned on all cases, where some decisions were drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.evidence.means import SMALLEST, Mean, Z, unit_for
from app.evidence.promise import PromiseSums, Risk, judge

_FEWEST, _HEAVIEST = 30.0, 0.1  # effective cases, and the greatest share of one case in all weights


@dataclass(frozen=True)
class Weighted:
    """An estimate, its interval and what it rests on: `effective` cases, and the largest weight as a share of all.

    `usable` is false where few cases decide it; without an interval the promise is of outcomes too rare for it.
    """

    ips: Mean
    dr: Mean
    effective: float
    largest: float
    usable: bool


def weighted(known: np.ndarray, chance: np.ndarray, earned: np.ndarray, model: np.ndarray, risks: Risk) -> Weighted:
    """The mean benefit of a way to decide over all n cases, known or not.

    `known` (n,) states whether the truth is known, `chance` (n,) with what probability it became known, `earned` (n,)
    what the way would have earned (any value where unknown), `model` (n,) what the model expects of it, `risks` how
    that varies. Inverse propensities (Horvitz and Thompson), not clipped: unbiased if the chances are right and above
    0. Doubly robust: the model's value and the weighted error of it; unbiased if either the chances or the model are
    right. Its interval is that of `judge` for the weighted errors, as a sample does not know rare losses; that of
    inverse propensities adds the error of the weights.
    """
    weight = np.where(known, 1 / np.where(known, chance, 1.0), 0.0)
    errors = weight * np.where(known, earned - model, 0.0)
    sums = PromiseSums()
    sums.add(errors, Risk(risks.logit, risks.width * weight), 0)
    judged, n = judge(sums), len(known)
    unit = unit_for(SMALLEST, model)
    design = (weight - 1) * (model / unit)
    ips = float((weight * np.where(known, earned, 0.0)).mean())
    dr = float((model + errors).mean())
    spread = Z * float(design.std()) / np.sqrt(n) * unit
    means = Mean(ips, None, None), Mean(dr, None, None)
    if judged.mean is not None and judged.low is not None and judged.high is not None:
        down, up = judged.mean - judged.low, judged.high - judged.mean
        means = (
            Mean(ips, ips - float(np.hypot(down, spread)), ips + float(np.hypot(up, spread))),
            Mean(dr, dr - down, dr + up),
        )
    total = float(weight.sum())
    effective = total**2 / float((weight**2).sum()) if total else 0.0
    largest = float(weight.max(initial=0.0)) / total if total else 1.0
    usable = judged.low is not None and effective >= _FEWEST and largest <= _HEAVIEST
    return Weighted(*means, effective, largest, usable)
