"""Any order of events, late and repeated ones too, leaves the queue as a plain model of it says."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Double, delete, literal

from app.database.engine import Database
from app.database.migrations import migrate
from app.errors import Conflict
from app.jobs import queue as queue_module
from app.jobs.job import (
    CANCELLED,
    ENDED,
    NOT_RENEWED,
    RELEASED,
    Ending,
    Event,
    Failure,
    Status,
)
from app.jobs.queue import KEY_PLACE, JobFilter, Origin, Queue, id_of_key
from app.jobs.tables import JOBS
from payoff.errors import Invalid
from tests.effort import repeated

ATTEMPTS = 2
OUTAGES = 3
LEASE = 10.0
CONTENTS = [("train", "a", "ds_1"), ("train", None, "ds_2"), ("compare", "a", None)]


class ClockedDatabase(Database):
    """Its clock stands still until a test moves it."""

    time = 1000.0

    @property
    def now(self):
        return literal(self.time, Double)


@dataclass
class Twin:
    """What one job should be."""

    content: tuple[str, str | None, str | None]  # kind, model, data set
    status: str = "queued"
    attempt: int = 0
    deaths: int = 0
    outages: int = 0
    cancel: bool = False
    lease_until: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None


class QueueMachine(RuleBasedStateMachine):
    def __init__(self, database):
        super().__init__()
        self.database = database
        with database.writing() as connection:
            connection.execute(delete(JOBS))
        self.queues = [
            Queue(database, attempts=ATTEMPTS, outages=OUTAGES, lease_seconds=LEASE)
            for _ in range(2)
        ]
        self.twins = {}
        self.claims = []

    def owns(self, job):
        twin = self.twins[job.id]
        return twin.status == "running" and twin.attempt == job.attempt

    def one_of_the_claims(self, data):
        """More often one that is still owned than a late one."""
        return data.draw(
            st.sampled_from(
                [*self.claims, *[job for job in self.claims if self.owns(job)] * 3]
            )
        )

    def lose(self, twin, deaths=0, outages=0):
        """The model of an attempt that died, or missed what it needs, or was given back."""
        twin.deaths += 0 if twin.cancel else deaths
        twin.outages += 0 if twin.cancel else outages
        too_often = (deaths and twin.deaths >= ATTEMPTS) or (
            outages and twin.outages >= OUTAGES
        )
        twin.status = (
            "cancelled" if twin.cancel else "failed" if too_often else "queued"
        )
        twin.started_at = twin.started_at if twin.status in ENDED else None
        twin.finished_at = self.database.time if twin.status in ENDED else None

    def ended(self, job_id, status):
        self.twins[job_id].status, self.twins[job_id].finished_at = (
            status,
            self.database.time,
        )

    @rule(
        key=st.none() | st.sampled_from("ab"),
        content=st.sampled_from(CONTENTS),
        which=st.sampled_from([0, 1]),
    )
    def submit(self, key, content, which):
        """A key that was used before answers with the first job, unless the order is another."""
        kind, model, dataset = content
        twin = self.twins.get(id_of_key(key)) if key else None
        if twin and twin.content[:2] != content[:2]:
            with pytest.raises(Invalid) as caught:
                self.queues[which].submit(
                    kind, {}, model=model, dataset=dataset, origin=Origin(key)
                )
            assert [flaw.loc for flaw in caught.value.flaws] == [KEY_PLACE]
            return
        heard = []
        self.queues[which].wake = lambda: heard.append(1)
        job = self.queues[which].submit(
            kind, {}, model=model, dataset=dataset, origin=Origin(key)
        )
        assert heard == [1] * (
            job.id not in self.twins
        )  # a worker of this process hears of each new job
        assert (job.id in self.twins) == (twin is not None)
        self.twins.setdefault(job.id, Twin(content))

    @rule(which=st.sampled_from([0, 1]))
    def claim(self, which):
        job = self.queues[which].claim(f"worker {which}")
        queued = [
            job_id for job_id, twin in self.twins.items() if twin.status == "queued"
        ]
        assert (job.id if job else None) == next(iter(queued), None)
        if job:
            twin = self.twins[job.id]
            twin.status, twin.attempt, twin.started_at = (
                "running",
                twin.attempt + 1,
                self.database.time,
            )
            twin.lease_until = self.database.time + LEASE
            assert job.attempt == twin.attempt
            self.claims.append(job)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), which=st.sampled_from([0, 1]))
    def beat(self, data, which):
        job = self.one_of_the_claims(data)
        expected = NOT_RENEWED
        if self.owns(job):
            twin = self.twins[job.id]
            twin.lease_until = self.database.time + LEASE
            expected = CANCELLED if twin.cancel else None
        assert self.queues[which].beat(job, 0.5, "half") is expected

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def succeed(self, data):
        job = self.one_of_the_claims(data)
        allowed = self.owns(job) and not self.twins[job.id].cancel
        try:
            with self.database.writing() as connection:
                self.queues[0].succeed(connection, job, {"attempt": job.attempt})
        except Conflict:
            assert not allowed
        else:
            assert allowed
            self.ended(job.id, "succeeded")

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(),
        how=st.sampled_from(["fail", "cancelled", "died", "missed", "given back"]),
    )
    def end(self, data, how):
        job = self.one_of_the_claims(data)
        queue, owns, twin = self.queues[1], self.owns(job), self.twins[job.id]
        ending = {
            "fail": Ending(Event.FAIL, Failure("broken")),
            "cancelled": CANCELLED,
            "given back": RELEASED,
            "died": Ending(Event.DIE, Failure("died")),
            "missed": Ending(Event.MISS, Failure("away")),
        }[how]
        assert (queue.end(job, ending) is not None) == owns
        if owns:
            if how not in ("fail", "cancelled"):
                self.lose(twin, deaths=how == "died", outages=how == "missed")
            else:
                self.ended(
                    job.id,
                    "cancelled" if twin.cancel or how == "cancelled" else "failed",
                )

    @precondition(lambda self: self.twins)
    @rule(data=st.data())
    def cancel(self, data):
        job_id = data.draw(st.sampled_from(list(self.twins)))
        twin = self.twins[job_id]
        written = []
        try:
            self.queues[1].cancel(job_id, also=lambda _: written.append(1))
        except Conflict:
            assert twin.status in {"succeeded", "failed"}
        else:
            assert written == [1] * (not twin.cancel and twin.status != "cancelled")
            assert twin.status in {"queued", "running", "cancelled"}
            twin.cancel = twin.cancel or twin.status != "cancelled"
            if twin.status == "queued":
                self.ended(job_id, "cancelled")

    @rule(seconds=st.sampled_from([1.0, LEASE / 2, LEASE + 1]))
    def wait(self, seconds):
        self.database.time += seconds

    @rule(which=st.sampled_from([0, 1]))
    def recover_from_dead_workers(self, which):
        recovered = {job.id for job in self.queues[which].recover_from_dead_workers()}
        for job_id, twin in self.twins.items():
            silent = twin.status == "running" and twin.lease_until < self.database.time
            assert (job_id in recovered) == silent
            if silent:
                self.lose(twin, deaths=1)

    @rule(seconds=st.sampled_from([3.0, LEASE, 3 * LEASE]))
    def expire(self, seconds):
        """Those that ended longer ago go, two at a time; their keys can be used again."""
        before = self.database.time - seconds
        old = [
            job_id
            for job_id, twin in self.twins.items()
            if twin.status in ENDED and twin.finished_at < before
        ]
        removed = list(iter(lambda: self.queues[0].expire(seconds), 0))
        assert removed == [2] * (len(old) // 2) + [1] * (len(old) % 2)
        for job_id in old:
            del self.twins[job_id]
        self.claims = [job for job in self.claims if job.id in self.twins]

    @invariant()
    def pages_have_what_they_are_asked_for(self):
        def asked(**wanted):
            jobs = JobFilter(**wanted)
            first, token = self.queues[0].page(jobs, page_size=3)
            return [
                job.id
                for job in first
                + (self.queues[0].page(jobs, page_token=token)[0] if token else [])
            ]

        for wanted, fits in (
            ({}, lambda _: True),
            ({"model": "a"}, lambda twin: twin.content[1] == "a"),
            ({"kinds": ["compare"]}, lambda twin: twin.content[0] == "compare"),
            (
                {"kinds": ["train"], "status": "queued"},
                lambda twin: (twin.content[0], twin.status) == ("train", "queued"),
            ),
        ):
            assert (
                asked(**wanted)
                == [job_id for job_id, twin in self.twins.items() if fits(twin)][::-1]
            )
        used = {
            twin.content[2] for twin in self.twins.values() if twin.status not in ENDED
        }
        assert {
            dataset
            for dataset in ("ds_1", "ds_2")
            if self.queues[1].uses_dataset(dataset)
        } == used - {None}
        counted = Counter(twin.status for twin in self.twins.values())
        assert self.queues[1].status().jobs == {
            status: counted[status] for status in Status
        }

    @invariant()
    def the_table_is_as_the_model_says(self):
        jobs, _ = self.queues[0].page(page_size=1000)
        assert [job.id for job in jobs] == list(self.twins)[::-1]
        for job in [self.queues[1].get(job.id) for job in jobs]:
            twin = self.twins[job.id]
            found = job.kind, job.model, job.dataset
            assert (
                *found,
                job.status,
                job.attempt,
                job.deaths,
                job.outages,
                job.cancel_requested,
            ) == (
                *(
                    *twin.content,
                    twin.status,
                    twin.attempt,
                    twin.deaths,
                    twin.outages,
                    twin.cancel,
                ),
            )
            assert (job.started_at, job.finished_at) == (
                twin.started_at,
                twin.finished_at,
            )
            assert job.result == (
                {"attempt": job.attempt} if job.status == "succeeded" else None
            )
            assert (job.error is not None) == (job.status == "failed")
            assert (job.progress == 1.0) == (job.status == "succeeded")


def test_the_queue_does_what_the_model_does(database_url, monkeypatch):
    monkeypatch.setattr(queue_module, "_EXPIRED", 2)
    database = ClockedDatabase(database_url)
    migrate(database)
    times = settings(
        max_examples=repeated(50 if database.is_sqlite else 15),
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
    )
    run_state_machine_as_test(lambda: QueueMachine(database), settings=times)
    database.close()
