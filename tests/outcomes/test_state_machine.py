"""In any order of recording, outcomes, erasing, sealing and upkeep, whatever dies or comes between: reads as a dict.

Each decision is there once, with all that was told of it, and nothing of one that was erased.
"""

import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from threading import get_ident
from time import time

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, select

from app.database.engine import Database
from app.outcomes import intake, rows, sealed, sealing, upkeep
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY, UNKNOWN, Batch, Decided, Outcome, Terms, new_ids
from app.outcomes.intake import DecisionsMoved, store
from app.outcomes.recorder import IdsTaken, RowStore
from app.outcomes.sealed import SealedFiles
from app.outcomes.shadows import Shadows
from app.outcomes.tables import (
    BY_ID,
    DECISIONS,
    ERASED,
    OUTCOMES,
    SEALED_FILES,
    SHADOW_DECISIONS,
    TABLES,
)
from app.outcomes.upkeep import expire, keep_up
from app.storage import Storage
from tests.effort import repeated
from tests.outcomes.records import LOAN, in_files

DATE = 20_000
MODELS, DAYS = st.sampled_from(["loan", "cash"]), st.sampled_from([DATE, DATE + 1])
OTHER = Terms(
    "predict", "loan", 2, "map", ("bad", "late", "good"), ("refuse", "grant")
)  # more classes, no matrix
CASH = Terms(
    "predict", "cash", 1, "map", ("no", "yes"), ("no", "yes"), ((1.0, 0.0), (-2.5, 3.0))
)
CONTENTS = [  # terms, choice, probabilities, expected benefit, propensity, instance
    (LOAN, 1, (0.25, 0.75), -0.5, 0.9, None),
    (OTHER, 0, (0.5, 0.25, 0.25), None, None, "[1]"),
    (CASH, 0, (0.75, 0.25), 0.125, None, None),
]
GIVEN = [f"Case-{i}" for i in range(5)]
WHICH = st.lists(st.integers(0, 8), unique=True, min_size=1, max_size=5)
TRUTHS = st.builds(
    Outcome,
    st.integers(0, 1),
    *[st.none() | st.sampled_from(each) for each in ([0, 1], [2.5], [7.5], [-0.5])],
)
KILLS = [
    (step, turn)
    for step, most in (("publish", 2), ("commit", 7), ("remove", 2))
    for turn in range(most)
]
KILLED = st.none() | st.tuples(
    st.sampled_from(KILLS), st.sampled_from(["before", "after"])
)
MEANWHILE = st.sampled_from(["", "", "", "record", "tell", "erase", "seal"])


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killing(killed):
    """End the process before or after the turn-th call of a method of files, or commit of a transaction.

    Only this thread's calls count and end: those of servers that other tests left running go on.
    """
    with pytest.MonkeyPatch.context() as patch:
        if killed is not None:
            ((step, turn), when), calls, this_thread = (
                killed,
                iter(range(10_000)),
                get_ident(),
            )
            owner, name = {
                "commit": (Database, "writing"),
                "remove": (Storage, "remove"),
            }.get(step, (SealedFiles, step))
            method = getattr(owner, name)

            def is_turn():
                return get_ident() == this_thread and next(calls) == turn

            @contextmanager
            def dying():
                is_now = is_turn()
                if is_now and when == "before":
                    raise Killed
                yield
                if is_now:
                    raise Killed

            @contextmanager
            def transaction(*arguments, **options):
                is_now = is_turn()
                with method(*arguments, **options) as connection:
                    yield connection
                    if is_now and when == "before":
                        raise Killed
                if is_now:
                    raise Killed

            def call(*arguments):
                with dying():
                    method(*arguments)

            patch.setattr(owner, name, transaction if step == "commit" else call)
        with suppress(Killed):
            yield


def failing(_connection):
    raise ZeroDivisionError


@dataclass
class Case:
    """A decision as it should be read."""

    content: int
    day: int
    at: float
    shadows: dict[str, int] = field(default_factory=dict)
    told: Outcome | None = None
    received_at: float = np.nan

    @property
    def terms(self):
        return CONTENTS[self.content][0]

    @property
    def place(self):
        return self.terms.model, self.day

    def row(self, id_):
        _, choice, P, expected, propensity, instance = CONTENTS[self.content]
        told = self.told or Outcome(UNKNOWN)
        action = UNKNOWN if told.action is None else told.action
        floats = [
            expected,
            told.number,
            told.benefit,
            told.at,
            self.received_at,
            propensity,
        ]
        floats = [np.nan if each is None else each for each in floats]
        return repr(
            (
                id_,
                self.at,
                choice,
                told.truth,
                action,
                *floats,
                instance,
                self.terms,
                "desk",
                P,
                self.shadows,
            )
        )


def everything(archive, model, **asked):
    """All that is read of a model: a line for each decision, sorted by id."""
    found = []
    for part in archive.cases(model, with_ids=True, with_instances=True, **asked):
        columns = [
            part.at,
            part.choice,
            part.truth,
            part.action,
            part.expected,
            part.number,
        ]
        columns += [part.benefit, part.outcome_at]
        numbers = np.array(
            [*columns, part.received_at, part.propensity], dtype=object
        ).T
        for i, (at, choice, truth, action, *floats) in enumerate(numbers.tolist()):
            p = part.probabilities[i]
            shadows = {
                name: int(chosen[i])
                for name, chosen in part.shadows.items()
                if chosen[i] >= 0
            }
            about = part.instances[i], part.terms[part.term[i]], part.keys[part.key[i]]
            P = tuple(p[~np.isnan(p)].tolist())
            found.append(
                repr(
                    (
                        part.ids[i],
                        at,
                        choice,
                        truth,
                        action,
                        *floats,
                        *about,
                        P,
                        shadows,
                    )
                )
            )
    return sorted(found)


class Recording(RuleBasedStateMachine):
    """The archive beside a dict of cases; what is written and erased goes the way that requests go."""

    now = 1e9  # of the clock by which outcomes are received

    def __init__(self, database, url):
        super().__init__()
        Recording.now = 1e9
        self.mortal = True
        with database.writing() as connection:
            for table in TABLES.sorted_tables:
                connection.execute(delete(table))
        self.database = database
        self.archive = Archive(database, f"{url}/{uuid.uuid4().hex}")
        self.store = RowStore(database, self.archive.locate)
        self.cases: dict[str, Case] = {}
        self.ours: list[str] = []
        self.erased: set[str] = set()

    @initialize(mortal=st.booleans())
    def be(self, mortal):
        """Of what was killed files stay for a day."""
        self.mortal = mortal
        for content, day in ((0, DATE), (1, DATE), (2, DATE + 1)):
            self.record(day, content, [content, content + 3], 1, shadow=content == 0)

    def teardown(self):
        self.store.close()

    def named(self, which):
        names = [*GIVEN, *self.ours[:4]]
        return [names[i] for i in which if i < len(names)]

    def tick(self):
        Recording.now += 1
        return Recording.now

    @rule(
        day=DAYS,
        content=st.sampled_from([0, 1, 2]),
        which=WHICH,
        ours=st.integers(0, 2),
        shadow=st.booleans(),
    )
    def record(self, day, content, which, ours, shadow=False):
        """Decisions with ids of our own, and such with ids of the caller's, which may have come before."""
        at = day * DAY + self.tick() * 977 % DAY
        fresh = new_ids(ours, at)
        self.ours += fresh
        model = CONTENTS[content][0].model
        here = [
            id_
            for id_ in self.named(which)
            if id_ not in self.cases or self.cases[id_].terms.model == model
        ]
        batches = [self.batch(fresh, content, at, given=False)] if fresh else []
        batches += [self.batch([id_], content, at, given=True) for id_ in here]
        others = self.erased | {
            id_ for id_, case in self.cases.items() if case.content != content
        }
        for batch, result in zip(batches, self.store.write(batches), strict=True):
            ids = [row.id for row in batch.rows]
            assert isinstance(result, IdsTaken) == (not others.isdisjoint(ids))
            if not isinstance(result, IdsTaken):
                new = [id_ for id_ in ids if id_ not in self.cases]
                assert [row.id for row in result] == new
                if shadow:
                    Shadows(self.database).keep(
                        new, "loan:3", model, day, [1] * len(new)
                    )
                self.cases |= {
                    id_: Case(content, day, at, {"loan:3": 1} if shadow else {})
                    for id_ in new
                }

    @staticmethod
    def batch(ids, content, at, *, given):
        n, (terms, choice, P, expected, propensity, instance) = (
            len(ids),
            CONTENTS[content],
        )
        decided = Decided(
            [terms], np.zeros(n, int), np.full(n, choice), np.tile(P, (n, 1)),
            None if expected is None else np.full(n, expected),
            None if propensity is None else np.full(n, propensity), instances=[instance] * n,
        )  # fmt: skip
        return Batch(
            decided.rows(ids, at, "desk", ids_of_client=given),
            {terms.digest: terms},
            "/record/ids",
        )

    @precondition(lambda self: self.cases)
    @rule(
        which=WHICH,
        outcome=TRUTHS,
        correct=st.booleans(),
        meanwhile=MEANWHILE,
        fails=st.sampled_from([False, False, False, True]),
    )
    def tell(self, which, outcome, correct=False, meanwhile="", fails=False):
        """Outcomes, between whose look for the decisions and their transaction something else may happen."""
        ids, looks = self.named(which), iter([meanwhile])

        def located():
            found = self.archive.locate(ids)
            if (what := next(looks, "")) in ("erase", "seal") and found:
                self.do(what, *self.cases[min(found)].place)
            return {id_: (found[id_], outcome) for id_ in ids if id_ in found}

        self.tick()
        for _ in range(rows.ROUNDS):
            outcomes = located()
            try:
                with self.database.writing() as connection:
                    received = store(connection, outcomes, correct=correct)
                    if fails:
                        failing(connection)
                break
            except DecisionsMoved:
                continue
            except ZeroDivisionError:
                return
        accepted = unchanged = 0
        conflicts, corrected = [], []
        for id_ in sorted(id_ for id_ in ids if id_ in self.cases):
            case = self.cases[id_]
            before, said = case.told.stated if case.told else {}, outcome.stated
            if any(before.get(name, value) != value for name, value in said.items()):
                (corrected if correct else conflicts).append(id_)
                if not correct:
                    continue
                before = {}
            elif before | said == before:
                unchanged += 1
                continue
            accepted += 1
            case.told, case.received_at = Outcome(**before | said), Recording.now
        assert (received.accepted, received.unchanged, received.corrected) == (
            accepted,
            unchanged,
            corrected,
        )
        assert [id_ for id_, *_ in received.conflicts] == conflicts

    @precondition(lambda self: self.cases)
    @rule(which=WHICH, fails=st.sampled_from([False, False, False, True]))
    def erase(self, which, fails=False):
        for id_ in self.named(which)[:1]:
            there = id_ in self.cases
            if fails and there:
                with pytest.raises(ZeroDivisionError):
                    self.archive.erase(id_, also=failing)
                continue
            assert self.archive.erase(id_) == there
            if there:
                del self.cases[id_]
                self.erased.add(id_)

    @precondition(lambda self: self.cases)
    @rule(model=MODELS, day=DAYS, killed=KILLED, meanwhile=MEANWHILE)
    def seal(self, model, day, killed=None, meanwhile=""):
        """A sealing that may be killed, or that others write, erase or seal in the midst of."""
        publish, turns = SealedFiles.publish, iter([meanwhile])
        killed = killed if self.mortal else None

        def interrupted(files, *arguments):
            self.do(next(turns, ""), model, day)
            publish(files, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SealedFiles, "publish", interrupted)
            with killing(killed):
                self.archive.sealer.seal(model, day)
                if killed is None and not meanwhile:
                    self.nothing_is_left(model, day)

    def do(self, what, model, day):
        """Something with the cases of a day, in the midst of something else."""
        names = self.named(range(9))
        which = [
            names.index(id_)
            for id_ in names
            if id_ in self.cases and self.cases[id_].place == (model, day)
        ]
        match what:
            case "record":
                self.record(day, 0 if model == "loan" else 2, [0, 1], 2)
            case "tell":
                self.tell(which[:3], Outcome(1), correct=True)
            case "erase":
                self.erase(which[:1])
                self.archive.sealer.purge(model, day)
            case "seal":
                self.archive.sealer.seal(model, day)

    def nothing_is_left(self, model, day):
        """No row of the day: it is all in files."""
        with self.database.reading() as connection:
            for table in (DECISIONS, OUTCOMES, SHADOW_DECISIONS):
                assert (
                    connection.execute(
                        select(table.c.id).where(*rows.of_day(table, model, day))
                    ).first()
                    is None
                )

    @precondition(lambda self: self.cases)
    @rule(model=MODELS, day=DAYS, killed=KILLED)
    def purge(self, model, day, killed=None):
        killed = killed if self.mortal else None
        with killing(killed):
            self.archive.sealer.purge(model, day)

    @rule()
    def keep_up(self):
        """What was erased is in no file, and its id nowhere."""
        keep_up(self.archive, None)
        assert in_files(self.archive) <= self.cases.keys()
        with self.database.reading() as connection:
            assert (
                connection.execute(
                    select(ERASED.c.id).where(ERASED.c.id.is_not(None))
                ).first()
                is None
            )
            of_rows = chain.from_iterable(
                connection.execute(select(table.c.id)) for table in BY_ID
            )
            assert {row.id for row in of_rows} <= self.cases.keys()

    @rule(before=st.sampled_from([*[DATE] * 5, DATE + 1]))
    def expire(self, before):
        expire(self.archive, time() - (before + 0.5) * DAY)
        self.cases = {
            id_: case for id_, case in self.cases.items() if case.day >= before
        }
        if before > DATE:
            for model in ("loan", "cash"):
                self.nothing_is_left(model, DATE)

    @invariant()
    def what_is_read_is_what_the_dict_has(self):
        for model in ("loan", "cash"):
            expected = sorted(
                case.row(id_)
                for id_, case in self.cases.items()
                if case.terms.model == model
            )
            assert everything(self.archive, model) == expected

    @invariant()
    def there_are_no_files_that_nobody_reads(self):
        with self.database.reading() as connection:
            known = {
                row.file: row.is_current
                for row in connection.execute(select(SEALED_FILES))
            }
        there = {
            f"{model}/{name}"
            for model in ("loan", "cash")
            for name in self.archive.storage.folders(model)
        }
        assert self.mortal or (there == known.keys() and all(known.values()))

    @invariant()
    def a_part_is_read_alone(self):
        first, last, versions = (
            (DATE * DAY + 9 * 3600),
            (DATE + 1) * DAY + 9 * 3600,
            {1},
        )
        fitting = {
            id_: case for id_, case in self.cases.items() if first <= case.at < last
        }
        expected = [
            case.row(i)
            for i, case in fitting.items()
            if case.terms.version in versions and case.terms != CASH
        ]
        assert everything(
            self.archive, "loan", since=first, until=last, versions=versions
        ) == sorted(expected)

    @invariant()
    def all_are_located(self):
        found = self.archive.locate(
            [*self.cases, *self.erased, *GIVEN, new_ids(1, DATE * DAY)[0]]
        )
        assert found.keys() == self.cases.keys()
        for id_, case in self.cases.items():
            one, (terms, choice, P, *_) = found[id_], CONTENTS[case.content]
            assert (one.model, one.day, one.at, one.terms, one.choice) == (
                *case.place,
                case.at,
                terms,
                choice,
            )
            payoffs = [
                (p, row[choice])
                for p, row in zip(P, terms.benefits or [], strict=False)
            ]
            mean = sum(p * payoff for p, payoff in payoffs)
            assert one.variance == pytest.approx(
                sum(p * (payoff - mean) ** 2 for p, payoff in payoffs)
            )


@pytest.fixture
def made(request, database, tmp_path, monkeypatch):
    """A function that makes one: its files are in a folder beside SQLite, in a bucket beside PostgreSQL."""
    monkeypatch.setattr(sealed, "GROUP", 4)
    monkeypatch.setattr(rows, "BATCH", 8)
    monkeypatch.setattr(sealing, "CLEAR", 5)
    monkeypatch.setattr(upkeep, "BATCH", 3)
    monkeypatch.setattr(intake, "time", lambda: Recording.now)
    url = str(tmp_path) if database.is_sqlite else request.getfixturevalue("bucket")
    return lambda: Recording(database, url)


def test_any_order_reads_as_the_dict(made, database):
    examples = repeated(60 if database.is_sqlite else 15)
    run_state_machine_as_test(
        made,
        settings=settings(max_examples=examples, stateful_step_count=40, deadline=None),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_each_step_nothing_is_lost_doubled_or_brought_back(
    made, when, monkeypatch
):
    """Where there is a file of the day already; what was erased is in no file after upkeep, and a day later none is
    left that nobody reads.
    """
    for kill in KILLS:
        recording = made()
        recording.record(DATE, 0, range(5), 0)
        recording.seal("loan", DATE)
        recording.record(DATE, 1, [], 9, shadow=True)
        recording.tell(range(5, 9), Outcome(1))
        for n, work in enumerate((recording.seal, recording.purge)):
            recording.erase([5 + n])
            work("loan", DATE, (kill, when))
            recording.what_is_read_is_what_the_dict_has()
        recording.keep_up()
        recording.seal("loan", DATE)
        recording.what_is_read_is_what_the_dict_has()
        with monkeypatch.context() as later:
            later.setattr(upkeep, "time", lambda: time() + DAY + 1)
            recording.keep_up()
        recording.mortal = False
        recording.there_are_no_files_that_nobody_reads()
        recording.teardown()


@pytest.mark.parametrize("work", ["seal", "tell"])
@pytest.mark.parametrize("meanwhile", ["record", "tell", "erase", "seal"])
def test_what_comes_in_the_midst_is_neither_lost_nor_brought_back(
    made, work, meanwhile
):
    recording = made()
    recording.be(mortal=False)
    for other in (meanwhile, ""):
        if work == "seal":
            recording.seal("loan", DATE, meanwhile=other)
        else:
            recording.tell(range(9), Outcome(0), meanwhile=other)
        recording.what_is_read_is_what_the_dict_has()
        recording.all_are_located()
    recording.keep_up()
    recording.teardown()
