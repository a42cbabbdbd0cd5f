"""Who hears what becomes of a worker's jobs."""

from __future__ import annotations

from app.jobs.job import Job


class Watcher:
    """Told by a worker, in its own thread, so every method returns at once; what is not overridden is not heard."""

    def begun(self, job: Job) -> None:
        """An attempt begins."""

    def ended(self, job: Job) -> None:
        """A job is over, well or not."""

    def put_back(self, job: Job) -> None:
        """An attempt was lost, and the job waits for the next."""
