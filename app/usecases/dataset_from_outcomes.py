"""A data set of what was decided on and turned out: recorded instances with their truth, to learn from again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from tempfile import TemporaryFile
from time import time
from typing import Any, BinaryIO, cast

import orjson

from app.data.store import Dataset
from app.data.upload_request import ColumnType, UploadRequest
from app.errors import Conflict, Invalid, NotFound, TooLarge
from app.outcomes.cases import Cases
from app.registry.card import Card
from app.usecases.models import card_of
from app.usecases.outcome_report.action_counts import ActionCounts
from app.usecases.outcome_report.reading import matured
from app.usecases.outcome_report.report import reservations
from app.usecases.outcome_report.selection import selection
from app.usecases.outcome_report.slices import settled, slices
from app.usecases.ports import Ports


def make(
    ports: Ports,
    model: str,
    *,
    since: float | None,
    until: float | None,
    name: str | None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Dataset:
    """Keep the recorded instances of a model from `since` until before `until` whose truth is known, as a data set.

    Truths of days of which many are still to come count as unknown. Its columns are the features of the model's latest
    version and its label. The record has, as `lineage`, where the rows come from, how many decisions are left out for
    what reason, and `warnings` where they are no fair sample. Raises NotFound at /model, Conflict where no data set can
    be made of these rows, Invalid at /name, TooLarge.
    """
    card = _latest(ports, model)
    types: dict[str, ColumnType] = {
        part.name: "number" if part.type == "numeric" else "category" for part in card.features
    }
    request = UploadRequest((card.labels[0],), name, types=types, lines=True)
    request.check()
    counts: Counter[str] = Counter()
    versions: set[int] = set()
    maturity = matured(ports.archive.cases(model, since=since, until=until, arrivals_only=True), time())
    actions = ActionCounts()
    with TemporaryFile() as file:
        for cases in ports.archive.cases(model, since=since, until=until, with_instances=True):
            for part in slices(cases, maturity.since):
                actions.add(part)
            counts.update(_write(cast(BinaryIO, file), settled(cases, maturity.since), card, versions))
            if counts["rows"] > ports.datasets.limits.max_rows:
                raise TooLarge(f"a data set may have at most {ports.datasets.limits.max_rows:,} rows; choose a period")
        left_out = {reason: counts[reason] for reason in ("without_instance", "without_truth", "of_acquire")}
        if not counts["rows"]:
            detail = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in left_out.items())
            raise Conflict(f"no recorded decision of {model!r} has its instance and its truth: {detail}")
        lineage = {
            "model": model,
            "versions": sorted(versions),
            "since": since,
            "until": until,
            "rows": counts["rows"],
            "left_out": left_out,
            "warnings": list(reservations(maturity, selective=selection(actions)["is"])),
        }
        try:
            return ports.datasets.upload(cast(BinaryIO, file), request, is_cancelled, lineage=lineage)
        except Invalid as error:  # its places are in the file
            raise Conflict(f"the recorded instances are no data set: {error.detail}") from error


def _latest(ports: Ports, model: str) -> Card:
    try:
        card = card_of(ports, model)
    except NotFound as error:
        raise error.at_place("/model") from error
    if card.classes is None or len(card.labels) > 1:
        raise Invalid.at("/model", f"{model!r} does not decide among classes, so none of its decisions is recorded")
    return card


def _write(file: BinaryIO, cases: Cases, card: Card, versions: set[int]) -> Mapping[str, int]:
    """Write a line for each usable case; count these, and the others by what they lack."""
    assert cases.instances is not None
    counts: Counter[str] = Counter()
    labels: list[Any] = [[orjson.dumps(name) for name in terms.classes] for terms in cases.terms]
    label = orjson.dumps(card.labels[0])
    for instance, term, truth in zip(cases.instances, cases.term.tolist(), cases.truth.tolist(), strict=True):
        lacks = (
            "of_acquire" if cases.terms[term].verb != "predict"
            else "without_instance" if instance is None
            else "without_truth" if truth < 0
            else ""
        )  # fmt: skip
        counts[lacks or "rows"] += 1
        if not lacks and instance is not None:
            versions.add(cases.terms[term].version)
            file.write(b"%b,%b:%b}\n" % (instance.rstrip()[:-1].encode(), label, labels[term][truth]))
    return counts
