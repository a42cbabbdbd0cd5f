"""Recorded decisions and what became of them, as columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.outcomes.decision import Terms

UNKNOWN = -1  # index of a truth, or of an action, that nobody has told
FLOATS = ("at", "expected", "propensity", "benefit", "outcome_at", "received_at")
INDICES = ("choice", "truth", "action")
COLUMNS = (*FLOATS, *INDICES, "probabilities", "terms", "client")  # that cases are made of; others on request


@dataclass(frozen=True)
class Asked:
    """What `Archive.cases` was asked for; `names` are columns of decisions and of outcomes."""

    model: str
    since: float | None
    until: float | None
    versions: Collection[int] | None
    names: Sequence[str]


@dataclass(frozen=True)
class Cases:
    """Decisions of one model on one day, n of them, in no particular order.

    `term` (n,) are indices into `terms`, `key` (n,) indices into `keys`, the names of the keys that asked (None without
    one). `choice` (n,) and `action` (n,), the one that was really taken, are indices into the actions of a case's
    terms; `truth` (n,) are indices into its classes; `UNKNOWN` where there is none. `probabilities` (n, K) is padded
    with NaN for terms with fewer classes. Floats that are absent are NaN. Times are seconds since 1970.
    `ids` and `instances` (JSON, None where absent) are there where they were asked for.
    `shadows` has, by challenger (`name:version`), what it would have chosen, (n,) indices into the same actions,
    `UNKNOWN` where it was not asked.
    `lost` counts decisions beside these that no reader understands, as their terms are missing.
    """

    day: int
    terms: Sequence[Terms]
    keys: Sequence[str | None]
    at: np.ndarray
    term: np.ndarray
    key: np.ndarray
    choice: np.ndarray
    expected: np.ndarray
    probabilities: np.ndarray
    propensity: np.ndarray
    truth: np.ndarray
    action: np.ndarray
    benefit: np.ndarray
    outcome_at: np.ndarray
    received_at: np.ndarray
    ids: Sequence[str] | None = None
    instances: Sequence[str | None] | None = None
    shadows: Mapping[str, np.ndarray] = field(default_factory=dict)
    lost: int = 0

    def __len__(self) -> int:
        return len(self.at)

    @property
    def known_at(self) -> np.ndarray:
        """(n,): when the truth was known, as the client says, else when it came."""
        return np.where(np.isnan(self.outcome_at), self.received_at, self.outcome_at)
