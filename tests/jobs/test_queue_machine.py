"""Any order of events, late and repeated ones too, leaves the queue as a plain model of it says."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import delete

from app.errors import Conflict
from app.jobs.job import CANCELLED, NOT_RENEWED, RELEASED, Ending, Event, Failure
from app.jobs.queue import Queue
from app.jobs.tables import JOBS
from app.migrations import migrate
from tests.effort import repeated
from tests.jobs.clock import ClockedDatabase

ATTEMPTS = 2
OUTAGES = 3
LEASE = 10.0


@dataclass
class Twin:
    """What one job should be."""

    status: str = "queued"
    attempt: int = 0
    deaths: int = 0
    outages: int = 0
    cancel: bool = False
    lease_until: float = 0.0
    successes: int = 0


class QueueMachine(RuleBasedStateMachine):
    def __init__(self, database):
        super().__init__()
        self.database = database
        with database.writing() as connection:
            connection.execute(delete(JOBS))
        self.queues = [Queue(database, attempts=ATTEMPTS, outages=OUTAGES, lease_seconds=LEASE) for _ in range(2)]
        self.twins = {}
        self.claims = []

    def owns(self, job):
        twin = self.twins[job.id]
        return twin.status == "running" and twin.attempt == job.attempt

    def lose(self, twin, deaths=0, outages=0):
        """The model of an attempt that died, or missed what it needs."""
        twin.deaths += 0 if twin.cancel else deaths
        twin.outages += 0 if twin.cancel else outages
        too_often = (deaths and twin.deaths >= ATTEMPTS) or (outages and twin.outages >= OUTAGES)
        twin.status = "cancelled" if twin.cancel else "failed" if too_often else "queued"

    @rule(key=st.none() | st.sampled_from("ab"), which=st.sampled_from([0, 1]))
    def submit(self, key, which):
        job = self.queues[which].submit("train", {}, key=key)
        assert key is not None or job.id not in self.twins
        self.twins.setdefault(job.id, Twin())

    @rule(which=st.sampled_from([0, 1]))
    def claim(self, which):
        job = self.queues[which].claim(f"worker {which}")
        queued = [job_id for job_id, twin in self.twins.items() if twin.status == "queued"]
        assert (job.id if job else None) == next(iter(queued), None)
        if job:
            twin = self.twins[job.id]
            twin.status, twin.attempt, twin.lease_until = "running", twin.attempt + 1, self.database.time + LEASE
            assert job.attempt == twin.attempt
            self.claims.append(job)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), which=st.sampled_from([0, 1]))
    def beat(self, data, which):
        job = data.draw(st.sampled_from(self.claims))
        expected = NOT_RENEWED
        if self.owns(job):
            twin = self.twins[job.id]
            twin.lease_until = self.database.time + LEASE
            expected = CANCELLED if twin.cancel else None
        assert self.queues[which].beat(job, 0.5, "half") is expected

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def succeed(self, data):
        job = data.draw(st.sampled_from(self.claims))
        allowed = self.owns(job) and not self.twins[job.id].cancel
        try:
            with self.database.writing() as connection:
                self.queues[0].succeed(connection, job, {"attempt": job.attempt})
        except Conflict:
            assert not allowed
        else:
            assert allowed
            self.twins[job.id].status = "succeeded"
            self.twins[job.id].successes += 1

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), how=st.sampled_from(["fail", "cancelled", "died", "missed", "given back"]))
    def end(self, data, how):
        job = data.draw(st.sampled_from(self.claims))
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
            self.lose(twin, deaths=how == "died", outages=how == "missed")
            twin.status = {"fail": "cancelled" if twin.cancel else "failed", "cancelled": "cancelled"}.get(
                how, twin.status
            )

    @precondition(lambda self: self.twins)
    @rule(data=st.data())
    def cancel(self, data):
        job_id = data.draw(st.sampled_from(list(self.twins)))
        twin = self.twins[job_id]
        try:
            self.queues[1].cancel(job_id)
        except Conflict:
            assert twin.status in {"succeeded", "failed"}
        else:
            assert twin.status in {"queued", "running", "cancelled"}
            twin.cancel = twin.cancel or twin.status != "cancelled"
            twin.status = "running" if twin.status == "running" else "cancelled"

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

    @invariant()
    def the_table_is_as_the_model_says(self):
        jobs, _ = self.queues[0].page(page_size=1000)
        assert [job.id for job in jobs] == list(self.twins)[::-1]
        for job in [self.queues[1].get(job.id) for job in jobs]:
            twin = self.twins[job.id]
            assert (job.status, job.attempt, job.deaths, job.outages, job.cancel_requested) == (
                twin.status,
                twin.attempt,
                twin.deaths,
                twin.outages,
                twin.cancel,
            )
            assert twin.successes == (job.status == "succeeded") == (job.result is not None)
            assert (job.finished_at is not None) == job.ended
            assert (job.error is not None) == (job.status == "failed")


def test_the_queue_does_what_the_model_does(database_url):
    database = ClockedDatabase(database_url)
    migrate(database)
    times = settings(
        max_examples=repeated(25 if database.is_sqlite else 12), stateful_step_count=40, deadline=None, derandomize=True
    )
    run_state_machine_as_test(lambda: QueueMachine(database), settings=times)
    database.close()
