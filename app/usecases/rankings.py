"""A ranking as a document: fields that reports on one model and comparisons of learners share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from app.decisions.benefit import mu
from app.decisions.bootstrap import Ranking
from app.decisions.rules import Ruled


def standings_of(ruled: Iterable[Ruled], ranking: Ranking, bound: float) -> list[dict[str, Any]]:
    """What each contender earned, in their order; `bound` is the upper bound of the benefit."""
    return [
        {
            "rule": each.rule,
            "benefit": standing.mean,
            "mu": mu(standing.mean, bound),
            "interval": standing.interval,
            "behind": standing.behind,
            "behind_interval": standing.behind_interval,
            "cross_validated": each.cross_validated,
        }
        for each, standing in zip(ruled, ranking.standings, strict=True)
    ]


def lead_of(ranking: Ranking, name: Callable[[int], Any]) -> dict[str, Any]:
    """By how much the best contender leads; `name` gives the name of the contender at a position."""
    second = None if ranking.runner_up is None else ranking.standings[ranking.runner_up]
    return {
        "same": [name(j) for j in ranking.same],
        "runner_up": None if ranking.runner_up is None else name(ranking.runner_up),
        "difference": second and second.behind,
        "interval": second and second.behind_interval,
        "differing_rows": ranking.differing,
        "significant": ranking.significant,
    }
