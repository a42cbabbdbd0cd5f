"""Recording of decisions that `/predict` answered; and the actions of some of them drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson

from app.access.caller import Caller
from app.errors import TooLarge
from app.outcomes.decision import Batch, Decided, Terms
from app.registry.loaded import Loaded
from app.usecases.record import Ids, batch
from app.usecases.rules import Answer, RuleFields

_RANGE = 2**64
_MAX_SHARED = 16 << 20  # bytes
_FIGURES = ("threshold", "beta", "delta")  # of an answer, that do not depend on its other instances


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
    return answer._replace(choice=choice, propensities=propensities)


def _uniform(text: str) -> float:
    """A number in [0, 1) that looks random."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") / _RANGE


def predicted_batch(
    model: Loaded, asked: RuleFields, answer: Answer, ids: Ids, caller: Caller, instances: Sequence[str] | None
) -> Batch:
    """The decisions of an answer to `/predict`, ready to be stored; `instances` are JSON."""
    terms, term = _terms(model, asked, answer)
    rows = np.arange(len(ids.ids))
    expected = None if answer.expected_benefits is None else answer.expected_benefits[rows, answer.choice]
    decided = Decided(
        terms,
        term,
        answer.choice,
        answer.probabilities,
        expected,
        answer.propensities,
        instances=instances,
    )
    return batch(decided, ids, caller)


def _terms(model: Loaded, asked: RuleFields, answer: Answer) -> tuple[list[Terms], np.ndarray]:
    """The terms of the decisions, and for each decision which of them: each distinct matrix has its own."""
    figures = _figures(asked, answer)
    matrices, term = _distinct(answer)
    _check_shared(len(matrices), model.classes, answer.actions, figures)
    priors = answer.priors
    return [
        Terms(
            verb="predict",
            model=model.name,
            version=model.version,
            rule=answer.rule,
            classes=tuple(answer.classes),
            actions=tuple(answer.actions),
            benefits=None if matrix is None else tuple(map(tuple, matrix.tolist())),
            priors=None if priors is None else dict(zip(map(str, answer.classes), priors.tolist(), strict=True)),
            figures=figures or None,
        )
        for matrix in matrices
    ], term


def _figures(asked: RuleFields, answer: Answer) -> dict[str, Any]:
    """What else the rule used, see `Terms`."""
    figures = {name: answer.figures[name] for name in _FIGURES if name in answer.figures}
    if asked.costs is not None:
        figures["costs"] = asked.costs.model_dump()
    if asked.explore is not None:
        figures["explore"] = asked.explore
    if asked.limits:
        figures["limits"] = {name: limit.model_dump() for name, limit in asked.counted.items()}
    if asked.resources:
        figures["resources"] = [resource.model_dump() for resource in asked.resources]
    return figures


def _distinct(answer: Answer) -> tuple[list[Any], np.ndarray]:
    """The distinct benefit matrices, None for none, and which of them (n,) each decision has."""
    n, benefits = len(answer.choice), None if answer.matrix is None else answer.matrix.benefits
    if benefits is None or benefits.ndim < 3:
        return [benefits], np.zeros(n, dtype=np.intp)
    flat = np.ascontiguousarray(benefits).reshape(n, -1) + 0.0
    _, first, term = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    return list(benefits[first]), np.ravel(term)


def _check_shared(matrices: int, *shared: Any) -> None:
    """TooLarge where what all decisions share, which is stored with each matrix, takes many times what was sent."""
    each = len(orjson.dumps(shared, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)) if matrices > 1 else 0
    if matrices * each > _MAX_SHARED:
        raise TooLarge(
            f"{matrices:,} benefit matrices to record, each with {each:,} bytes of classes, actions and limits;"
            f" a request records at most {_MAX_SHARED >> 20} MB of these: send fewer matrices at once, or leave out"
            " limits"
        )
