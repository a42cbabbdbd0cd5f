"""Actions drawn at random for a known share of decisions, so that their outcomes can be estimated without bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from app.usecases.predict import Answer

_RANGE = 2**64


def explored(answer: Answer, model: str, ids: Sequence[str], share: float) -> Answer:
    """The answer with actions drawn uniformly for that share of its decisions, and the propensity of each action.

    What is drawn depends on the decision's id and the model alone: a request that is repeated gets the same. With A
    actions the best one has the propensity 1 - share + share / A, each other one share / A.
    """
    best, n_actions = answer.choice, len(answer.actions)
    draws = np.array([_uniform(f"{model}:{id_}") for id_ in ids])
    drawn = np.minimum((draws / share * n_actions).astype(np.intp), n_actions - 1)
    choice = np.where(draws < share, drawn, best)
    propensities = np.where(choice == best, 1 - share + share / n_actions, share / n_actions)
    return replace(answer, choice=choice, propensities=propensities)


def _uniform(text: str) -> float:
    """A number in [0, 1) that looks random."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") / _RANGE
