"""Recording of cases that `/acquire` decided: what was asked, what it cost, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from app.access.caller import Caller
from app.errors import Invalid
from app.outcomes.decision import Batch, Decided, Terms
from app.registry.loaded import Loaded
from app.usecases.acquire import AcquireRequest, CaseStates
from app.usecases.ports import Ports
from app.usecases.record import batch, check_moment, ids_of, wish_of

_FIGURES = ("budget", "feature_costs", "unavailable")


def recorded(
    ports: Ports, model: Loaded, asked: AcquireRequest, cases: Sequence[Any], states: CaseStates, caller: Caller,
    own_ids: tuple[str, list[Any]] | None = None,
) -> tuple[Batch | None, list[str | None] | None]:  # fmt: skip
    """The cases to record, and the id of each case, None where more is asked for; nothing where none are to be.

    One case is asked about several times, and recorded once, when nothing more is asked. `own_ids` as `Wish.under` has
    them. Raises Invalid and Forbidden at the field that does not fit.
    """
    wish = wish_of(ports, model, asked.record)
    if wish is None:
        return None, None
    wish = wish.under(own_ids)
    check_moment(ports, caller, wish)
    ids = ids_of(wish, len(cases))
    if not states.asker.classes:
        raise Invalid.at("/record", f"{model.name!r} predicts numbers; decisions are recorded, with actions or classes")
    done = [reason is not None for reason in states.reason]
    at: np.ndarray = np.flatnonzero(done)
    choice = states.states.prediction if states.decision is None else states.decision.choice
    expected = None if states.decision is None else states.decision.expected_benefits[at, choice[at]]
    details = _details(cases, states)
    texts = [orjson.dumps(cases[i]).decode() for i in at] if wish.instances else None
    decided = Decided(
        [_terms(model, asked, states)], np.zeros(len(at), dtype=np.intp), choice[at], states.P[at], expected,
        details=[details[i] for i in at], instances=texts,
    )  # fmt: skip
    own = ids._replace(ids=[ids.ids[i] for i in at])
    found = replace(batch(decided, own, caller), positions=at.tolist())
    return found, [id_ if ended else None for id_, ended in zip(ids.ids, done, strict=True)]


def _details(cases: Sequence[Any], states: CaseStates) -> list[str]:
    """Of each case as JSON: the features that were asked for, in order, what they cost, and why it stopped."""
    spent = states.prices.rounded(states.states.spent)
    return [
        orjson.dumps({"asked": list(case), "spent": cost, "reason": reason}).decode()
        for case, cost, reason in zip(cases, spent, states.reason, strict=True)
    ]


def _terms(model: Loaded, asked: AcquireRequest, states: CaseStates) -> Terms:
    classes, stakes = tuple(states.asker.classes), states.stakes
    sent = {name: getattr(asked, name) for name in _FIGURES}
    figures = {name: list(value) if name == "unavailable" else value for name, value in sent.items() if value}
    if asked.budget is not None:
        figures["budget"] = asked.budget
    return Terms(
        verb="acquire",
        model=model.name,
        version=model.version,
        rule="most_probable" if stakes is None else "expected_benefit",
        classes=classes,
        actions=classes if stakes is None else tuple(stakes.actions),
        benefits=None if stakes is None else tuple(map(tuple, stakes.benefits.tolist())),
        figures=figures or None,
    )
