"""Challengers: versions that decide on recorded requests to an alias, without delaying answers."""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread
from time import sleep

import orjson
from sqlalchemy.exc import SQLAlchemyError

from app.access.caller import Caller
from app.answering.decide import decide
from app.answering.predict import PredictFields
from app.answering.record import explored
from app.answering.rewards import decide_by_rewards
from app.errors import NotFound
from app.outcomes.decision import Batch, day_of
from app.outcomes.shadows import Shadows
from app.registry.card import Card
from app.registry.loaded import Loaded
from app.registry.registry import Registry
from app.registry.snapshot import Reference
from app.requests.rows import NOTHING, Rows, texts_of_rows
from app.requests.rules import RuleFields
from app.stores import Stores
from payoff.errors import Flaw, Invalid, PayoffError, pointer, reject

MAX_CHALLENGERS = 3  # of an alias: each decides on all of its requests
# of the waiting instances; with more, requests have no shadow
_MAX_WAITING_NUMBERS = 1_000_000
_PAUSE_SECONDS = 1.0  # after an error of the database

_log = logging.getLogger(__name__)


def check_challengers(
    stores: Stores, name: str, version: int, references: Sequence[str], by: Caller
) -> None:
    """Invalid below /shadow where a challenger could not decide on the requests to the version.

    Forbidden, before anything is looked up, where the key is not for one of them.
    """
    for reference in references:
        by.need_model(reference)
    if len(references) > MAX_CHALLENGERS:
        raise Invalid.at(
            "/shadow", f"an alias has at most {MAX_CHALLENGERS} challengers"
        )
    card = stores.registry.index.card(name, version)
    flaws = []
    for i, reference in enumerate(references):
        problem = _problem(stores, card, reference)
        if not problem and reference in references[:i]:
            problem = "it is named twice"
        if problem:
            flaws.append(Flaw(pointer("shadow", i), problem))
    reject(flaws)


def _problem(stores: Stores, card: Card, reference: str) -> str:
    """The reason why a version cannot be a challenger of the card's; empty where it can."""
    try:
        version = Reference.parse(reference)
        if version.version is None:
            return (
                f"{reference!r} changes its meaning: name a version, as in 'triage:2'"
            )
        challenger = stores.registry.index.card(version.name, version.version)
    except (Invalid, NotFound) as error:
        return error.detail
    if (challenger.name, challenger.version) == (card.name, card.version):
        return f"{reference!r} is the version that the alias means"
    return _mismatch(card, challenger, reference)


def _mismatch(card: Card, challenger: Card, reference: str) -> str:
    """How a challenger differs from the card's model; empty where it decides about the same."""
    if challenger.rewarded != card.rewarded:
        return "of the two versions one learned from rewards, and the other did not"
    if [str(c) for c in challenger.classes or ()] != [
        str(c) for c in card.classes or ()
    ]:
        return f"{reference!r} has other {'actions' if card.rewarded else 'classes'}"
    if [f.name for f in challenger.features] != [f.name for f in card.features]:
        return f"{reference!r} has other features, or has them in another order"
    return ""


@dataclass(frozen=True)
class Offered:
    """A recorded request to a model: its question, rows and ids, and the day of the decisions."""

    challengers: Sequence[str]
    model: Loaded
    day: int
    question: RuleFields
    rows: Rows
    ids: Sequence[str]

    @property
    def numbers(self) -> int:
        return len(self.ids) * len(self.model.schema.names)

    def rows_for(self, challenger: Loaded) -> Rows:
        """The rows of the challenger, which may know other categories."""
        X = self.rows.X
        schema = self.model.schema
        if challenger.schema.features != schema.features:
            texts = texts_of_rows(X, schema)
            X, _ = challenger.schema.encode([orjson.loads(text) for text in texts])
        return Rows(X, [], columns=self.rows.columns)


class ShadowDecider:
    """One thread in which challengers decide on offered requests, as long as it keeps up."""

    def __init__(self, registry: Registry, shadows: Shadows) -> None:
        self._registry = registry
        self._shadows = shadows
        self._waiting: deque[Offered] = deque()
        self._numbers = 0
        self._lock = Lock()
        self._awake = Event()
        self._stopped = False
        self._thread = Thread(target=self._run, name="shadow", daemon=True)

    def start(self) -> None:
        self._shadows.start()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waiting requests are dropped: reports count decisions with a shadow."""
        self._stopped = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join()

    def offer_recorded(
        self, batch: Batch, model: Loaded, fields: PredictFields, rows: Rows
    ) -> None:
        """Have the challengers of the reference decide on the rows of a batch that is stored.

        They do not where it has a guarantee, which is about one version alone.
        """
        challengers = self._shadows.of(fields.model or "")
        if not challengers or not batch.rows or fields.certified is not None:
            return
        ids = [row.id for row in batch.rows]
        question = fields.model_copy(update={"explain": False})
        rows = rows._replace(
            instances=None, carried=NOTHING
        )  # to take less memory while they wait
        offered = Offered(
            challengers, model, day_of(batch.rows[0].at), question, rows, ids
        )
        self.offer(offered)

    def offer(self, offered: Offered) -> None:
        """Put the request in the queue of the thread; never waits."""
        with self._lock:
            if self._stopped or self._numbers + offered.numbers > _MAX_WAITING_NUMBERS:
                self._shadows.dropped.inc(len(offered.ids))
                return
            self._numbers += offered.numbers
            self._waiting.append(offered)
        self._awake.set()

    def _run(self) -> None:
        while not self._stopped:
            if not self._waiting:
                self._awake.wait()
                self._awake.clear()
                continue
            offered = self._waiting.popleft()
            for challenger in offered.challengers:
                self._decide(challenger, offered)
            with self._lock:
                self._numbers -= offered.numbers

    def _decide(self, challenger: str, offered: Offered) -> None:
        try:
            model = self._registry.load(challenger)
            verb = decide_by_rewards if model.rewarded else decide
            answer = verb(model, offered.question, offered.rows_for(model))
            share = offered.question.explore
            # The draw is the same, or the challenger would explore less. By rewards it is judged
            # without exploration, since a choice that follows the draw has no chance of its own.
            if share is not None and not model.rewarded:
                answer = explored(answer, offered.model.name, offered.ids, share)
            self._shadows.keep(
                offered.ids,
                challenger,
                offered.model.name,
                offered.day,
                answer.choice.tolist(),
            )
        except (PayoffError, SQLAlchemyError) as error:
            self._shadows.dropped.inc(len(offered.ids))
            _log.warning("%s could not decide in the background: %s", challenger, error)
            if not isinstance(error, Invalid) and not self._stopped:
                sleep(_PAUSE_SECONDS)
        except Exception:  # noqa: BLE001 - the next request may succeed
            self._shadows.dropped.inc(len(offered.ids))
            _log.exception("unexpected error of %s in the background", challenger)
