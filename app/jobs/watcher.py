"""Observers of a worker's jobs."""

from __future__ import annotations

from app.jobs.job import Job


class Watcher:
    """Called by a worker in its own thread, so every method returns at once. The base class ignores all events."""

    def begun(self, job: Job) -> None:
        """An attempt begins."""

    def ended(self, job: Job) -> None:
        """A job is over, well or not."""

    def put_back(self, job: Job) -> None:
        """An attempt was lost, and the job waits for the next."""
