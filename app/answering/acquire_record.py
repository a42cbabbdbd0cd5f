"""The record of a case that asked for features: what it asked for, its cost, and the decision."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from app.access.caller import Caller
from app.answering.acquire import AcquireRequest, CaseStates
from app.answering.record import batch, distinct, ids_of
from app.outcomes.decision import Batch, Decided, Terms
from app.registry.loaded import Loaded
from app.stores import Stores
from payoff.acquisition.prices import rounded
from payoff.errors import Invalid

_RECORDED_FIELDS = ("budget", "feature_costs", "unavailable")


def recorded(
    stores: Stores,
    model: Loaded,
    question: AcquireRequest,
    cases: Sequence[Any],
    answer: CaseStates,
    caller: Caller,
    request_ids: tuple[str, list[Any]] | None = None,
) -> tuple[Batch, list[str | None]]:
    """The decided cases as a batch, and the id of each case, None where more is asked for.

    A case of several calls is recorded once, when nothing more is asked for. `request_ids` as
    `ids_of` has them. Raises Invalid and Forbidden at the field that does not fit.
    """
    assert question.record is not None
    if question.segments:
        raise Invalid.at("/record/segments", "segments are of decisions by /predict")
    ids = ids_of(stores, caller, question.record, len(cases), request_ids)
    if not answer.model.classes:
        raise Invalid.at(
            "/record",
            f"{model.name!r} predicts numbers; decisions are recorded, with actions or classes",
        )
    is_decided = [reason is not None for reason in answer.reasons]
    positions = np.flatnonzero(is_decided).tolist()
    decided = _decided(model, question, cases, answer, positions)
    decided_ids = ids._replace(ids=[ids.ids[i] for i in positions])
    records = replace(batch(decided, decided_ids, caller), positions=positions)
    ids_of_decided = [
        id_ if is_final else None
        for id_, is_final in zip(ids.ids, is_decided, strict=True)
    ]
    return records, ids_of_decided


def _decided(
    model: Loaded,
    question: AcquireRequest,
    cases: Sequence[Any],
    answer: CaseStates,
    positions: list[int],
) -> Decided:
    """The decisions about the cases at `positions`."""
    cases = model.schema.without_ignored(cases)
    choice = answer.states.prediction
    expected = None
    if answer.decision is not None:
        choice = answer.decision.choice
        expected = answer.decision.expected_benefits[positions, choice[positions]]
    details = _details(cases, answer)
    benefits = None if answer.matrix is None else answer.matrix.benefits
    matrices, matrix_of = distinct(benefits, len(cases))
    return Decided(
        [_terms(model, question, answer, B) for B in matrices],
        matrix_of[positions],
        choice[positions],
        answer.P[positions],
        expected,
        details=[details[i] for i in positions],
        instances=_instance_texts(cases, question, positions),
    )


def _instance_texts(
    cases: Sequence[Any], question: AcquireRequest, positions: list[int]
) -> list[str] | None:
    """The cases at `positions` with their columns, as JSON, where the request records instances."""
    if question.record is None or not question.record.instances:
        return None
    columns = (question.columns or {}).items()
    instances = (
        {**cases[i], **{name: values[i] for name, values in columns}} for i in positions
    )
    return [orjson.dumps(instance).decode() for instance in instances]


def _details(cases: Sequence[Any], answer: CaseStates) -> list[str]:
    """Of each case, as JSON: the features asked for, in order, their cost, the reason to stop."""
    spent = rounded(answer.states.spent)
    return [
        orjson.dumps({"asked": list(case), "spent": cost, "reason": reason}).decode()
        for case, cost, reason in zip(cases, spent, answer.reasons, strict=True)
    ]


def _terms(
    model: Loaded, question: AcquireRequest, answer: CaseStates, B: np.ndarray | None
) -> Terms:
    classes = tuple(answer.model.classes)
    fields = {name: getattr(question, name) for name in _RECORDED_FIELDS}
    figures = {name: value for name, value in fields.items() if value}
    if "unavailable" in figures:
        figures["unavailable"] = list(figures["unavailable"])
    if question.budget is not None:
        figures["budget"] = question.budget
    return Terms(
        verb="acquire",
        model=model.name,
        version=model.version,
        rule="most_probable" if answer.matrix is None else "expected_benefit",
        classes=classes,
        actions=classes if answer.matrix is None else tuple(answer.matrix.actions),
        benefits=None if B is None else tuple(map(tuple, B.tolist())),
        figures=figures or None,
    )
