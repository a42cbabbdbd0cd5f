"""Orders to replay recorded decisions: checked here, and accepted as jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.access.caller import Caller
from app.errors import Flaw, Invalid, NotFound, pointer, reject
from app.jobs.job import Job
from app.registry.card import Card
from app.registry.snapshot import Reference
from app.usecases import jobs
from app.usecases.matrices import read_matrix, with_saved
from app.usecases.models import card_of
from app.usecases.ports import Ports
from app.usecases.priors import stated
from app.usecases.rules import RuleFields, check_fields
from app.usecases.specs import ReplaySpec

KIND = "replay"
_USUAL = ({"rule": "expected_benefit"}, {"rule": "most_probable"})


def submit(ports: Ports, reference: str, order: Mapping[str, Any], *, key: str | None, caller: Caller) -> Job:
    """Accept an order to replay the decisions of `name` (all versions), `name:3` or `name@alias`.

    Raises Invalid with the place of what cannot work, NotFound for what is not published.
    """
    wanted = Reference.parse(reference)
    whole = wanted.version is None and wanted.alias is None
    card = card_of(ports, reference)
    if card.classes is None or card.classes == card.labels:
        raise Invalid(f"{wanted.name!r} has no decisions to replay: it predicts numbers, or several labels")
    sent = with_saved(ports, order["matrix"], wanted.name, card.classes)
    stakes = read_matrix(sent, card.classes, named=True)
    rules = list(order["rules"] or (_USUAL if not order["models"] else _USUAL[:1]))
    names = [str(name) for name in card.classes]
    for i, rule in enumerate(rules):
        try:
            check_fields(question_of(rule))
            if rule.get("priors") is not None:
                stated(rule["priors"], names)
        except Invalid as error:
            raise error.under(pointer("rules", i)) from error
    spec = ReplaySpec(
        model=wanted.name,
        classes=list(card.classes),
        versions=None if whole else [card.version],
        models=_versions(ports, order["models"], card, caller),
        rules=rules,
        benefits=None if stakes is None else stakes.benefits.tolist(),
        actions=None if stakes is None or stakes.actions is None else list(stakes.actions),
        since=order["since"],
        until=order["until"],
    )
    return jobs.submit(ports, caller, KIND, spec, model=wanted.name, dataset=None, key=key)


def question_of(rule: Mapping[str, Any], benefits: Any = ()) -> RuleFields:
    """A rule of an order, with these benefits; the recorded ones stand for what it does not state."""
    return RuleFields.model_validate({**rule, "priors": None, "benefits": benefits})


def _versions(ports: Ports, references: list[str], card: Card, caller: Caller) -> list[str]:
    """The models as `name:version`; Invalid or NotFound below /models."""
    found, flaws = [], []
    for i, reference in enumerate(references):
        caller.need_model(reference)
        try:
            other = card_of(ports, reference)
        except NotFound as error:
            raise error.at_place(pointer("models", i)) from error
        if other.classes != card.classes:
            flaws.append(Flaw(pointer("models", i), f"{reference!r} has other classes than {card.name!r}"))
        found.append(f"{other.name}:{other.version}")
    reject(flaws)
    return list(dict.fromkeys(found))
