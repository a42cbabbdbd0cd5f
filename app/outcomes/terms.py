"""What many decisions have in common: the model, the rule, and what was at stake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson

Label = int | str


@dataclass(frozen=True)
class Terms:
    """The model's version, the rule, and the benefit matrix by which a decision was made.

    `benefits` (K, A) has a row per class and a column per action; None where the request stated none. `priors` are
    those that the request stated. `figures` holds what else the rule used: thresholds, costs, limits, prices, the
    budget.
    """

    verb: str  # predict or acquire
    model: str
    version: int
    rule: str
    classes: tuple[Label, ...]
    actions: tuple[Label, ...]
    benefits: tuple[tuple[float, ...], ...] | None = None
    priors: Mapping[str, float] | None = None
    figures: Mapping[str, Any] | None = None

    @cached_property
    def content(self) -> str:
        """All of it as JSON, the same text for the same terms."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY).decode()

    @cached_property
    def digest(self) -> str:
        """Identity of the content, 32 hexadecimal digits."""
        return blake2b(self.content.encode(), digest_size=16).hexdigest()

    @cached_property
    def matrix(self) -> np.ndarray | None:
        """`benefits` as float64 (K, A)."""
        return None if self.benefits is None else np.array(self.benefits, dtype=np.float64)

    @classmethod
    def read(cls, content: str) -> Terms:
        """The terms of `content`."""
        fields = orjson.loads(content)
        fields |= {"classes": tuple(fields["classes"]), "actions": tuple(fields["actions"])}
        if fields["benefits"] is not None:
            fields["benefits"] = tuple(tuple(row) for row in fields["benefits"])
        return cls(**fields)
