"""The figures of a policy learned from rewards, as the card has them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from app.outcomes.decision import Label
from payoff.evidence.intervals import Mean
from payoff.evidence.policies import (
    LoggedRewards,
    best_single,
    gain_over,
    judge,
    judged_mean,
)
from payoff.evidence.uplift import SHARES, calibration, uplift_curve

_MAX_TREATMENTS = 10  # that have uplift curves


def policy_figures(
    log: LoggedRewards, fold: np.ndarray, names: Sequence[Label], baseline: str | None
) -> dict[str, Any]:
    """What the best action by the log's model would have earned, beside the log and single actions.

    The model of a case did not see its `fold` (n,); `names` (A,) are those of the actions, one of
    which may be the `baseline` of uplift curves.
    """
    chosen = log.expected.argmax(axis=1)
    judgement = judge(log, chosen)
    single = best_single(log)
    actions = list(_actions(log, chosen, names))
    figures: dict[str, Any] = {
        "value": _interval(judgement.value),
        "logged": judgement.logged,
        "gain": _interval(judgement.gain),
        "best_single": {
            "action": names[single],
            "gain": actions[single]["gain_over"],
        },
        "effective": judgement.effective,
        "expected_effective": judgement.expected_effective,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "actions": actions,
        "calibration": _calibration(log, chosen),
    }
    if baseline is not None:
        code = [str(name) for name in names].index(baseline)
        figures["uplift"] = _uplift(log, fold, names, code)
    return figures


def _actions(
    log: LoggedRewards, chosen: np.ndarray, names: Sequence[Label]
) -> Iterator[dict[str, Any]]:
    """Of each action the rows, how often it is chosen, what it would earn if it were always taken,
    and how well its rewards are predicted.
    """
    for code, name in enumerate(names):
        single = np.full(len(chosen), code)
        acted = log.actions == code
        judgement = judge(log, single)
        weights = log.shares * acted
        yield {
            "action": name,
            "rows": int(acted.sum()),
            "mean_reward": float(weights @ log.rewards / (weights.sum() or 1.0)),
            "chosen": float(np.average(chosen == code, weights=log.row_weights)),
            "value": _interval(judged_mean(judgement.value, judgement.reason)),
            "gain_over": _interval(gain_over(log, chosen, code)),
            "calibration": _calibration(log, single),
        }


def _calibration(log: LoggedRewards, chosen: np.ndarray) -> list[dict[str, Any]]:
    return [
        {
            "rows": part.rows,
            "acted": part.acted,
            "predicted": part.predicted,
            "observed": _interval(part.observed),
        }
        for part in calibration(log, chosen)
    ]


def _uplift(
    log: LoggedRewards, fold: np.ndarray, names: Sequence[Label], baseline: int
) -> dict[str, Any]:
    """The curves of the best treatment of each case, and of the treatments with most rows."""
    treatments = np.array([code for code in range(len(names)) if code != baseline])
    best = treatments[log.expected[:, treatments].argmax(axis=1)]
    counts = np.bincount(log.actions, minlength=len(names))
    common = sorted(
        treatments[np.argsort(-counts[treatments])][:_MAX_TREATMENTS].tolist()
    )

    def curve(chosen: np.ndarray) -> dict[str, Any]:
        drawn = uplift_curve(log, chosen, baseline, fold)
        points = zip(SHARES.tolist(), drawn.gains, strict=True)
        return {
            "area": _interval(drawn.area),
            "reason": drawn.reason,
            "curve": [{"share": share} | _interval(gain) for share, gain in points],
        }

    return {
        "baseline": names[baseline],
        "best": curve(best),
        "treatments": [
            {"action": names[code]} | curve(np.full(len(fold), code)) for code in common
        ],
    }


def _interval(mean: Mean) -> dict[str, float | None]:
    return {"mean": mean.mean, "low": mean.low, "high": mean.high}
