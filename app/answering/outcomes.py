"""Outcomes of recorded decisions: stored, and erased."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from time import time
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from app.access.audit import Write
from app.access.caller import Caller
from app.errors import NotFound, Unavailable
from app.outcomes import intake
from app.outcomes.archive import Located
from app.outcomes.decision import Label, Outcome, day_of_id, id_digest
from app.outcomes.rows import ROUNDS
from app.outcomes.tables import MAX_ID
from app.requests.fields import TIME_FORM, Moment, Number, Text, WireModel
from app.stores import Stores
from app.tables.text import MISSING, normal, refused_character
from payoff.errors import MAX_ERRORS, Flaw, Invalid, TooLarge, pointer, unknown_at
from payoff.evidence.intervals import LARGEST_EARNED

MAX_OUTCOMES = 100_000  # of a request
MAX_DAYS = 400  # sealed days, of one model each, that a request opens
NO_DECISION = "there is no recorded decision with this id"
_MAX_AUDITED_IDS = 20
# seconds by which the clocks of clients may differ from that of the service
_TOLERANCE = 300.0

FIELDS = ("id", "truth", "action", "benefit", "at")


@dataclass(frozen=True)
class OutcomeRows:
    """The outcomes of a request: rows of `FIELDS`, None where an outcome does not state a field.

    An outcome without a truth is open. `place(i, field)` is the JSON pointer of a field. In text
    from a table (`words`) a missing truth or action may be a word such as NA.
    """

    rows: Sequence[tuple[Any, ...]]
    place: Callable[[int, str], str]
    words: bool = False

    @property
    def days(self) -> int:
        """The number of days in the ids that the service made itself."""
        return len({day_of_id(row[0]) for row in self.rows} - {None})

    def lacks(self, word: Label | None, names: Sequence[Label]) -> bool:
        """Whether a truth or an action is missing; `names` are those of the classes or actions."""
        return word is None or (self.words and word in MISSING and word not in names)

    def is_open(self, row: tuple[Any, ...], decision: Located | None) -> bool:
        """Whether the outcome of a row has no truth, or reward, so that nothing of it is stored."""
        _, truth, _, benefit, _ = row
        if decision is None:
            return self.lacks(truth, ()) and benefit is None
        is_missing = self.lacks(truth, decision.terms.classes)
        return is_missing and (benefit is None or not decision.terms.rewarded)


def _text_of_integer(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _text_of_boolean(value: Any) -> Any:
    return str(value).lower() if type(value) is bool else value


class OutcomeDocument(WireModel):
    """What became of a decision."""

    id: Annotated[Text, BeforeValidator(_text_of_integer)] = Field(
        max_length=MAX_ID,
        description="of the decision, as its answer had it",
        examples=["visit-1"],
    )
    truth: Annotated[
        StrictInt | Number | Text | None, BeforeValidator(_text_of_boolean)
    ] = Field(
        default=None,
        description="the class that it really was, of booleans `true` or `false`; of a quantity,"
        " and of bands, the number; null while it is open: nothing is stored then. Decisions by"
        " rewards have a `benefit` alone",
        examples=["ill"],
    )
    action: StrictInt | Text | None = Field(
        default=None,
        description="what was really done, where that was not the decision",
        examples=["treat"],
    )
    benefit: Annotated[float, Field(strict=True)] | None = Field(
        default=None,
        description="what was really gained, where it is not the benefit of the matrix",
        examples=[4.5],
    )
    at: Moment = Field(
        default=None,
        description="when the truth was known, where that is not now: after the decision;"
        f" {TIME_FORM}",
        examples=["2026-03-01T12:00:00Z"],
    )


CORRECT = Field(
    default=False,
    description="replace outcomes that say something else; in the audit log",
)


class OutcomesRequest(WireModel):
    """Outcomes of recorded decisions."""

    outcomes: Annotated[list[OutcomeDocument], Field(fail_fast=True, min_length=1)]
    correct: StrictBool = CORRECT

    def rows(self) -> OutcomeRows:
        """The outcomes as rows; Invalid where one states neither a truth nor a benefit."""
        flaws = [
            Flaw(
                pointer("outcomes", i, "truth"),
                "the truth, or the 'benefit' of a decision by rewards, is required; null while"
                " it is open",
            )
            for i, outcome in enumerate(self.outcomes)
            if outcome.model_fields_set.isdisjoint(("truth", "benefit"))
        ]
        if flaws:
            raise Invalid.of(flaws)
        rows = [
            (outcome.id, outcome.truth, outcome.action, outcome.benefit, outcome.at)
            for outcome in self.outcomes
        ]
        return OutcomeRows(rows, lambda i, name: pointer("outcomes", i, name))


def check_count(count: int) -> None:
    """TooLarge for more outcomes than a request may have."""
    if count > MAX_OUTCOMES:
        raise TooLarge(
            f"a request may have at most {MAX_OUTCOMES:,} outcomes; this has {count:,}"
        )


def store(
    stores: Stores, caller: Caller, outcomes: OutcomeRows, *, correct: bool
) -> dict[str, Any]:
    """Store outcomes, and report the result of each; see `intake.store`.

    Outcomes of decisions that are not recorded, or whose models the key is not for, are unknown.
    Nothing is stored of open ones. Raises Invalid with the place of what does not fit its decision,
    and then stores nothing; Unavailable where decisions keep moving. O(n log n).
    """
    check_count(len(outcomes.rows))
    flaws = [*islice(_flaws(outcomes), MAX_ERRORS)]
    if flaws:
        raise Invalid.of(flaws)
    ids = list(
        dict.fromkeys(
            id_
            for id_, truth, _, benefit, _ in outcomes.rows
            if truth is not None or benefit is not None
        )
    )
    for _ in range(ROUNDS):
        located = stores.archive.locate(ids, caller.allows, MAX_DAYS)
        located = {
            id_: located[id_] for id_ in located if caller.allows(located[id_].model)
        }
        resolved, flaws = _resolved(outcomes, located)
        if flaws:
            raise Invalid.of(flaws)
        try:
            with stores.database.writing() as connection:
                received = intake.store(connection, resolved, correct=correct)
                if received.corrected:
                    _audited(stores, caller, located, received.corrected)(connection)
            break
        except intake.DecisionsMoved:
            continue
    else:
        raise Unavailable(
            "recorded decisions are being moved by another process; try again later"
        )
    stores.recorder.totals.add_outcomes(received.first, time())
    return {
        "accepted": received.accepted,
        "unchanged": received.unchanged,
        "open": sum(
            outcomes.is_open(row, located.get(row[0]))
            for row in outcomes.rows
            if row[0] in located or row[1] is None
        ),
        "unknown": [id_ for id_ in ids if id_ not in located],
        "conflicts": [
            {
                "id": id_,
                "stored": _worded(located[id_], stored),
                "sent": _worded(located[id_], outcome),
            }
            for id_, stored, outcome in received.conflicts
        ],
    }


def _audited(
    stores: Stores,
    caller: Caller,
    located: Mapping[str, Located],
    corrected: Sequence[str],
) -> Write:
    """The entry of the audit log about corrections; an id may identify a person, so it has
    digests.
    """
    models = sorted({located[id_].model for id_ in corrected})
    subject = models[0] if len(models) == 1 else f"{len(models)} models"
    digests = [id_digest(id_) for id_ in corrected[:_MAX_AUDITED_IDS]]
    return stores.audit.entry(
        caller, "outcomes.correct", subject, count=len(corrected), id_digests=digests
    )


def erase(stores: Stores, caller: Caller, id_: str) -> None:
    """Delete a decision with all that belongs to it, see `Archive.erase`; the audit log has the
    digest of its id.

    NotFound where there is none, or where the key is not for its model.
    """
    is_none = len(id_) > MAX_ID or refused_character(id_)
    audited = stores.audit.entry(caller, "decision.erase", id_digest(id_))
    if is_none or not stores.archive.erase(id_, allowed=caller.allows, also=audited):
        raise NotFound(NO_DECISION)


def _flaws(outcomes: OutcomeRows) -> Iterator[Flaw]:
    """The flaws of ids, benefits and times."""
    latest = time() + _TOLERANCE
    for i, (id_, _, _, benefit, at) in enumerate(outcomes.rows):
        if not 1 <= len(id_) <= MAX_ID:
            yield Flaw(outcomes.place(i, "id"), f"an id has 1 to {MAX_ID} characters")
        if not abs(benefit or 0.0) <= LARGEST_EARNED:
            message = (
                f"a benefit is a finite number of magnitude at most {LARGEST_EARNED:g}"
            )
            yield Flaw(outcomes.place(i, "benefit"), message)
        if not 0 <= (at or 0.0) <= latest:
            message = "a truth is known after 1970, and not in the future"
            yield Flaw(outcomes.place(i, "at"), message)


@dataclass
class _Codes:
    """The codes of classes and actions by their names, and the flaws of names that are unknown."""

    place: Callable[[int, str], str]
    flaws: list[Flaw] = field(default_factory=list)
    _codes: dict[tuple[Label, ...], dict[str, int]] = field(default_factory=dict)

    def code(
        self, i: int, name: str, label: Label | float, names: tuple[Label, ...]
    ) -> int:
        """The position of a label among `names`; 0 and a flaw at the field `name` of row i if
        unknown.
        """
        codes = self._codes.get(names)
        if codes is None:
            codes = self._codes[names] = {str(word): k for k, word in enumerate(names)}
        text = str(label)
        if text in codes:
            return codes[text]
        # pandas writes integers beside missing ones as 1.0; other systems write other Unicode.
        for spelling in (text.removesuffix(".0"), normal(text)):
            if spelling in codes:
                return codes[spelling]
        kind = "class" if name == "truth" else name
        self.flaws.append(unknown_at(self.place(i, name), kind, label, codes))
        return 0


def _resolved(
    outcomes: OutcomeRows, located: Mapping[str, Located]
) -> tuple[dict[str, tuple[Located, Outcome]], list[Flaw]]:
    """The outcomes of located decisions, as codes of their terms, by the ids; and the flaws: one
    where a name is none of the terms', and at a second, different outcome of one decision.
    """
    codes = _Codes(outcomes.place)
    flaws = codes.flaws
    resolved = {}
    first: dict[str, Any] = {}
    for i, (id_, truth, action, benefit, at) in enumerate(outcomes.rows):
        decision = located.get(id_)
        if outcomes.is_open((id_, truth, action, benefit, at), decision):
            continue
        outcome: Any = (truth, action, benefit, at)
        if decision is not None:
            terms = decision.terms
            action_code = None
            if not outcomes.lacks(action, terms.actions):
                action_code = codes.code(i, "action", action, terms.actions)
            if at is not None and at < decision.at - _TOLERANCE:
                made = datetime.fromtimestamp(decision.at, UTC).isoformat(
                    timespec="seconds"
                )
                message = f"'at' is before the decision, which was made at {made}"
                flaws.append(Flaw(outcomes.place(i, "at"), message))
            if terms.rewarded:
                number, truth_code = None, 0
                if not outcomes.lacks(truth, ()) or benefit is None:
                    message = "a decision by rewards has a 'benefit', and no truth"
                    flaws.append(Flaw(outcomes.place(i, "truth"), message))
            else:
                label, number = terms.labelled(truth)
                truth_code = codes.code(i, "truth", label, terms.classes)
            outcome = Outcome(truth_code, action_code, benefit, at, number)
            resolved[id_] = decision, outcome
        if first.setdefault(id_, outcome) != outcome:
            message = f"{id_!r} comes twice in this request, with different outcomes"
            flaws.append(Flaw(outcomes.place(i, "id"), message))
        if len(flaws) >= MAX_ERRORS:
            break
    return resolved, flaws


def _worded(decision: Located, outcome: Outcome) -> dict[str, Any]:
    """An outcome in the words of its decision, with the fields that it states."""
    words = outcome.stated
    if decision.terms.rewarded:
        del words["truth"]
    else:
        words["truth"] = words.pop("number", decision.terms.classes[outcome.truth])
    if outcome.action is not None:
        words |= {"action": decision.terms.actions[outcome.action]}
    return words
