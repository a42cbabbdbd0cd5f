"""The decisions that wait for a person, first those whose truth is worth most; and one in full."""

from dataclasses import asdict
from typing import Any, Literal

import numpy as np
import orjson
from pydantic import Field

from app.access.caller import Caller
from app.answering.decide import decide
from app.answering.outcomes import NO_DECISION
from app.answering.reasons import add_texts
from app.database.pages import page_of, place_of
from app.errors import NotFound
from app.outcomes.archive import Located
from app.outcomes.decision import UNIT_COSTS, Label, Outcome, Terms
from app.outcomes.tables import MAX_ID
from app.registry.snapshot import Reference
from app.report.report import moment, versions_of
from app.report.slices import Slice, slices
from app.requests.fields import Period, Text
from app.requests.reasons import ReasonsFields
from app.requests.rows import encode_instances
from app.requests.rules import RuleFields
from app.stores import Stores
from app.tables.text import refused_character
from payoff.errors import Invalid, unknown_at

# After so many decisions or days no earlier day is read, see benchmarks/review.md.
MOST_SCANNED = 50_000
MOST_DAYS = 20
_REASONS = 4  # against the decision that was made
# The fields of an explanation that hold for any rule.
_OF_FEATURES = ("contributions", "base_value", "contributions_to", "reasons")
_PLACE = r"-?[0-9]{1,20}([.][0-9]{1,20})?(e[+-]?[0-9]{1,3})?,.{1,128}"


class QueueQuery(Period):
    """Which decisions wait, and in which order."""

    action: Text | None = Field(default=None, description="the one that was decided")
    open: bool | None = Field(
        default=None, description="true: without known truth; false: with it"
    )
    order: Literal["stake", "time"] = Field(
        default="stake", description="greatest stake, or latest, first"
    )
    page_size: int = Field(default=50, ge=1, le=500)
    page_token: str | None = Field(default=None, max_length=200)


def queue(
    stores: Stores, caller: Caller, reference: str, query: QueueQuery
) -> dict[str, Any]:
    """A page of the decisions of a model, as a document; the audit log has their number.

    The stake of a case is what knowing its truth would be worth: the expected benefit under perfect
    knowledge less that of the decision. Days are read from the latest on, until `MOST_SCANNED`
    decisions or `MOST_DAYS` days are read, or by time the page is full. Cases without a matrix have
    no stake.

    Invalid where no decision that was read has the action, or classes.
    """
    token = place_of(query.page_token, f"{query.order},{_PLACE}")
    _, number, last_id = (token or ",inf,").split(",", 2)
    after = float(number), last_id
    by_time = query.order == "time"
    until = float(np.nextafter(after[0], np.inf)) if by_time and token else query.until
    days = stores.archive.cases(
        Reference.parse(reference).name,
        since=query.since,
        until=until,
        versions=versions_of(stores, reference),
        with_ids=True,
        newest_first=True,
        action=query.action,
    )
    lines: list[tuple[float, str, dict[str, Any]]] = []
    scanned = 0
    days_read: set[int] = set()
    is_complete = True
    is_classless = False
    actions: set[Label] = set()
    for cases in days:
        is_enough = (
            scanned >= MOST_SCANNED
            or len(days_read) >= MOST_DAYS
            or (by_time and len(lines) > query.page_size)
        )
        if cases.day not in days_read and is_enough:
            is_complete = False
            break
        days_read.add(cases.day)
        scanned += cases.scanned
        for terms in cases.terms:
            if _has_classes(terms):
                actions.update(terms.actions)
            else:
                is_classless = True
        for part in slices(cases):
            if _has_classes(part.stack.terms[0]):
                lines += _lines(part, query, after)
    if is_classless and not actions:
        message = f"{reference!r} decides on quantities or by rewards, whose truth has no stake"
        raise Invalid.at("", message)
    names = sorted(map(str, actions))
    if query.action is not None and names and query.action not in names and is_complete:
        raise Invalid.of([unknown_at("/action", "action", query.action, names)])
    lines.sort(key=lambda line: (-line[0], line[1]))
    page, next_token = page_of(
        lines,
        query.page_size,
        lambda line: f"{query.order},{line[0]!r},{line[1]}",
    )
    _audit(stores, caller, reference, len(page))
    return {
        "decisions": [document for _, _, document in page],
        "scanned": scanned,
        "complete": is_complete,
        "next_page_token": next_token,
    }


def _has_classes(terms: Terms) -> bool:
    """Whether these decide neither on a quantity nor by rewards."""
    return terms.width == len(terms.classes)


def _lines(
    part: Slice, query: QueueQuery, after: tuple[float, str]
) -> list[tuple[float, str, dict[str, Any]]]:
    """The first decisions of a part, for one page and one more, with their ranks and ids."""
    stack = part.stack
    best = (part.probabilities * stack.best[part.term]).sum(axis=1)
    stake = np.maximum(best - part.expected, 0.0)
    rank = part.at if query.order == "time" else stake
    is_kept = ~np.isnan(rank)
    if query.open is not None:
        is_kept &= part.known != query.open
    rows = np.flatnonzero(is_kept)
    ids = np.array(part.ids, dtype=str)[rows]
    is_later = (rank[rows] < after[0]) | ((rank[rows] == after[0]) & (ids > after[1]))
    rows = rows[is_later]
    ids = ids[is_later]
    order = np.lexsort((ids, -rank[rows]))[: query.page_size + 1]
    lines = []
    for i, id_ in zip(rows[order].tolist(), ids[order].tolist(), strict=True):
        probabilities = zip(stack.classes, part.probabilities[i].tolist(), strict=True)
        document = {
            "id": id_,
            "at": moment(float(part.at[i])),
            "version": stack.version,
            "action": stack.actions[part.choice[i]],
            "probabilities": {str(name): p for name, p in probabilities},
            "expected_benefit": _number(part.expected[i]),
            "stake": _number(stake[i]),
            "known": bool(part.known[i]),
        }
        lines.append((float(rank[i]), id_, document))
    return lines


def decision(stores: Stores, caller: Caller, id_: str) -> dict[str, Any]:
    """All that is recorded of a decision, and its explanation by the version that decided, with
    reasons against the action where the model has contributions.

    NotFound where there is none, or where the key is not for its model.
    """
    is_none = len(id_) > MAX_ID or refused_character(id_)
    located = None if is_none else stores.archive.locate([id_]).get(id_)
    if located is None or not caller.allows(located.model):
        raise NotFound(NO_DECISION)
    row, outcome = stores.archive.row(id_, located)
    _audit(stores, caller, f"{located.model}:{located.version}", 1)
    terms = located.terms
    # The bytes are filled up where other decisions of the file have more classes.
    P = np.frombuffer(row["probabilities"], "<f8")[: terms.width]
    instance = None if row["instance"] is None else orjson.loads(row["instance"])
    document = {
        "id": id_,
        "at": moment(located.at),
        "key": row["client"],
        "terms": asdict(terms),
        "action": terms.actions[located.choice],
        "probabilities": P,
        "propensity": row["propensity"],
        "instance": instance,
        "outcome": None if outcome is None else _outcome(outcome, located),
        "expected_benefits": None,
        "stake": None,
        "explanation": None,
    }
    if terms.rewarded:
        rewards, chances, benefits = np.split(P, 3)
        document |= {
            "probabilities": None,
            "expected_rewards": rewards,
            "chances": chances,
            "expected_benefits": benefits,
        }
    elif terms.benefits is not None:
        B = np.array(terms.benefits)
        document |= {
            "expected_benefits": P @ B,
            "stake": max(float(P @ (B.max(axis=1) - B[:, located.choice])), 0.0),
            "explanation": _explanation(stores, located, instance),
        }
    elif terms.rule == UNIT_COSTS:
        document["action"] = P[0]
    return document


def _outcome(outcome: Outcome, located: Located) -> dict[str, Any]:
    """An outcome in words."""
    terms = located.terms
    truth: Label | float | None = outcome.number
    if truth is None and not terms.rewarded:
        truth = terms.classes[outcome.truth]
    action = None if outcome.action is None else terms.actions[outcome.action]
    return {"truth": truth, "action": action, "benefit": outcome.benefit}


def _explanation(
    stores: Stores, located: Located, instance: dict[str, Any] | None
) -> dict[str, Any] | None:
    """What would change the decision of a recorded instance, and what its features count; the
    latter alone where more than the expected benefit decided, such as limits or a guarantee.

    None where the version is deleted, and of questions, bands and a single action.
    """
    terms = located.terms
    figures = terms.figures or {}
    is_other = terms.verb != "predict" or figures.get("bands") or len(terms.actions) < 2
    if instance is None or is_other:
        return None
    try:
        model = stores.registry.load(f"{located.model}:{located.version}")
    except NotFound:
        return None
    known = {name: instance[name] for name in instance if name in model.schema.names}
    fields = RuleFields(
        benefits=[list(row) for row in terms.benefits or ()],
        actions=None
        if terms.actions == terms.classes
        else list(map(str, terms.actions)),
        priors=terms.priors,
        explain=ReasonsFields(reasons=_REASONS, against=terms.actions[located.choice]),
    )
    rows = encode_instances(model, [known], (), has_booleans=True)
    explanations = decide(model, fields, rows).explanations
    if not explanations:
        return None
    add_texts(stores, model.name, explanations)
    [explanation] = explanations
    if figures or terms.rule != "expected_benefit":
        return {name: explanation[name] for name in _OF_FEATURES if name in explanation}
    return explanation


def _audit(stores: Stores, caller: Caller, subject: str, count: int) -> None:
    """Enter how many decisions were read."""
    write = stores.audit.entry(caller, "decisions.read", subject, decisions=count)
    with stores.database.writing() as connection:
        write(connection)


def _number(value: float) -> float | None:
    """A number, None for NaN."""
    return None if np.isnan(value) else float(value)
