"""What became of recorded decisions: taken in, and erased."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import time
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from app.access.audit import Write
from app.access.caller import Caller
from app.errors import NotFound
from app.outcomes.archive import Located
from app.outcomes.decision import Label, Outcome, day_of_id, id_digest
from app.outcomes.intake import Received, receive
from app.outcomes.tables import MAX_ID
from app.requests.fields import TIME_FORM, Moment, Number, Text, WireModel
from app.stores import Stores
from app.tables.text import MISSING, normal, refused_character
from payoff.errors import MAX_ERRORS, Flaw, TooLarge, pointer, reject, unknown_at
from payoff.evidence.intervals import LARGEST_EARNED

MOST = 100_000  # outcomes of a request
MOST_DAYS = 400  # sealed ones, of one model each, that a request opens
NO_DECISION = "there is no recorded decision with this id"
_AUDITED_IDS = 20
_TOLERANCE = 300.0  # seconds by which the clocks of clients may differ from ours

FIELDS = ("id", "truth", "action", "benefit", "at")


@dataclass(frozen=True)
class Sent:
    """Outcomes as they were sent: a row for each with `FIELDS`, None where one does not state it.

    One without a truth is open. `place` gives the JSON pointer of a field of one of them. In text from a table
    (`words`) a missing truth or action may be a word such as NA.
    """

    rows: Sequence[tuple[Any, ...]]
    place: Callable[[int, str], str]
    words: bool = False

    @property
    def days(self) -> int:
        """How many days the ids name that are the service's own."""
        return len({day_of_id(row[0]) for row in self.rows} - {None})

    def lacks(self, word: Label | None, names: Sequence[Label]) -> bool:
        """Whether a truth or an action is missing, where these are the names of classes or actions."""
        return word is None or (self.words and word in MISSING and word not in names)


class OutcomeDocument(WireModel):
    """What became of a decision."""

    id: Annotated[Text, BeforeValidator(lambda sent: str(sent) if type(sent) is int else sent)] = (
        Field(
            max_length=MAX_ID,
            description="of the decision, as its answer had it",
            examples=["visit-1"],
        )
    )
    truth: Annotated[
        StrictInt | Number | Text | None,
        BeforeValidator(lambda sent: str(sent).lower() if type(sent) is bool else sent),
    ] = Field(
        description="the class that it really was, of booleans `true` or `false`; of a quantity, and of bands, the"
        " number; null while it is open: nothing is stored then",
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
        description=f"when the truth was known, where that is not now: after the decision; {TIME_FORM}",
        examples=["2026-03-01T12:00:00Z"],
    )


CORRECT = Field(
    default=False, description="replace outcomes that say something else; in the audit log"
)


class OutcomesRequest(WireModel):
    """Outcomes of recorded decisions."""

    outcomes: Annotated[list[OutcomeDocument], Field(fail_fast=True, min_length=1)]
    correct: StrictBool = CORRECT

    def sent(self) -> Sent:
        """As rows."""
        rows = [(each.id, each.truth, each.action, each.benefit, each.at) for each in self.outcomes]
        return Sent(rows, lambda i, name: pointer("outcomes", i, name))


def check_count(count: int) -> None:
    """TooLarge for more outcomes than a request may have."""
    if count > MOST:
        raise TooLarge(f"a request may have at most {MOST:,} outcomes; this has {count:,}")


def take_in(stores: Stores, caller: Caller, sent: Sent, *, correct: bool) -> dict[str, Any]:
    """Store outcomes, and report what became of each; see `intake.receive`.

    Outcomes of decisions that are not recorded, or whose models the key is not for, are unknown. Nothing is stored of
    open ones. Raises Invalid with the place of what does not fit its decision, and then stores nothing. O(n log n).
    """
    check_count(len(sent.rows))
    reject(_flaws(sent))
    ids = list(dict.fromkeys(id_ for id_, truth, *_ in sent.rows if truth is not None))
    found: dict[str, Located] = {}

    def resolve() -> Mapping[str, tuple[Located, Outcome]]:
        nonlocal found
        located = stores.archive.locate(ids, caller.allows, MOST_DAYS)
        found = {id_: each for id_, each in located.items() if caller.allows(each.model)}
        return _resolved(sent, found)

    def audited(received: Received) -> Write | None:
        if not received.corrected:
            return None
        models = sorted({found[id_].model for id_ in received.corrected})
        subject = models[0] if len(models) == 1 else f"{len(models)} models"
        digests = [
            id_digest(id_) for id_ in received.corrected[:_AUDITED_IDS]
        ]  # an id may tell of a person
        return stores.audit.entry(
            caller, "outcomes.correct", subject, count=len(received.corrected), id_digests=digests
        )

    received = receive(stores.database, resolve, correct=correct, also=audited)
    stores.recorder.totals.hear(received.first, time())
    return {
        "accepted": received.accepted,
        "unchanged": received.unchanged,
        "open": sum(
            truth is None or (id_ in found and sent.lacks(truth, found[id_].terms.classes))
            for id_, truth, *_ in sent.rows
        ),
        "unknown": [id_ for id_ in ids if id_ not in found],
        "conflicts": [
            {"id": id_, "stored": _worded(found[id_], stored), "sent": _worded(found[id_], other)}
            for id_, stored, other in received.conflicts
        ],
    }


def erase(stores: Stores, caller: Caller, id_: str) -> None:
    """Delete a decision with all that belongs to it, see `Archive.erase`; the audit log has the digest of its id.

    NotFound where there is none, or where the key is not for its model.
    """
    is_none = len(id_) > MAX_ID or refused_character(id_)
    audited = stores.audit.entry(caller, "decision.erase", id_digest(id_))
    if is_none or not stores.archive.erase(id_, allowed=caller.allows, also=audited):
        raise NotFound(NO_DECISION)


def _flaws(sent: Sent) -> Iterator[Flaw]:
    """What is no id, benefit or time."""
    latest = time() + _TOLERANCE
    for i, (id_, _, _, benefit, at) in enumerate(sent.rows):
        if not 1 <= len(id_) <= MAX_ID:
            yield Flaw(sent.place(i, "id"), f"an id has 1 to {MAX_ID} characters")
        if not abs(benefit or 0.0) <= LARGEST_EARNED:
            msg = f"a benefit is a finite number of magnitude at most {LARGEST_EARNED:g}"
            yield Flaw(sent.place(i, "benefit"), msg)
        if not 0 <= (at or 0.0) <= latest:
            yield Flaw(sent.place(i, "at"), "a truth is known after 1970, and not in the future")


def _resolved(sent: Sent, found: Mapping[str, Located]) -> dict[str, tuple[Located, Outcome]]:
    """The outcomes of decisions that were found, in the words of their terms; Invalid at what is none of these, and at
    another outcome of the same decision.
    """
    positions: dict[tuple[Label, ...], dict[str, int]] = {}
    flaws: list[Flaw] = []

    def index(i: int, field: str, label: Label | float, names: tuple[Label, ...]) -> int:
        known = positions.get(names)
        if known is None:
            known = positions[names] = {str(name): k for k, name in enumerate(names)}
        word = str(label)
        # As pandas writes integers beside missing ones, or as another system writes text.
        others = word.removesuffix(".0"), normal(word)
        k = next((known[name] for name in (word, *others) if name in known), None)
        if k is None:
            what = "class" if field == "truth" else field
            flaws.append(unknown_at(sent.place(i, field), what, label, known))
        return k or 0

    resolved = {}
    first: dict[str, Any] = {}
    for i, (id_, truth, action, benefit, at) in enumerate(sent.rows):
        decision = found.get(id_)
        if sent.lacks(truth, decision.terms.classes if decision else ()):
            continue
        outcome: Any = (truth, action, benefit, at)
        if decision is not None:
            done = (
                None
                if sent.lacks(action, decision.terms.actions)
                else index(i, "action", action, decision.terms.actions)
            )
            if at is not None and at < decision.at - _TOLERANCE:
                made = datetime.fromtimestamp(decision.at, UTC).isoformat(timespec="seconds")
                flaws.append(
                    Flaw(
                        sent.place(i, "at"),
                        f"'at' is before the decision, which was made at {made}",
                    )
                )
            label, number = decision.terms.labelled(truth)
            outcome = Outcome(
                index(i, "truth", label, decision.terms.classes), done, benefit, at, number
            )
            resolved[id_] = decision, outcome
        if first.setdefault(id_, outcome) != outcome:
            flaws.append(
                Flaw(
                    sent.place(i, "id"),
                    f"{id_!r} comes twice in this request, with different outcomes",
                )
            )
        if len(flaws) >= MAX_ERRORS:
            break
    reject(flaws)
    return resolved


def _worded(decision: Located, outcome: Outcome) -> dict[str, Any]:
    """An outcome in the words of its decision, with the fields that it states."""
    words = outcome.stated
    words["truth"] = words.pop("number", decision.terms.classes[outcome.truth])
    return (
        words
        if outcome.action is None
        else words | {"action": decision.terms.actions[outcome.action]}
    )
