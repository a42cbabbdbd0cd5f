"""A Dask scheduler and its workers."""

from collections.abc import Mapping

from tests.servers.program import Program, free_port, listening

_QUIET = ("--no-dashboard", "--host", "127.0.0.1")


class DaskScheduler(Program):
    """Gives out work; what it knew is lost with it."""

    name = "dask-scheduler"
    module = "distributed.cli.dask_scheduler"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        return [*_QUIET, "--port", str(self.port)]

    def ready(self) -> bool:
        return listening(self.port)


class DaskWorker(Program):
    """One thread, no nanny: what kills it is seen at once, and it comes back when it is started again."""

    name = "dask-worker"
    module = "distributed.cli.dask_worker"

    def __init__(self, scheduler: str) -> None:
        super().__init__()
        self._scheduler = scheduler

    def arguments(self) -> list[str]:
        place = [
            "--local-directory",
            str(self.folder),
            "--memory-limit",
            "0",
            "--nthreads",
            "1",
            "--no-nanny",
        ]
        return [self._scheduler, *_QUIET, *place]

    def environment(self) -> Mapping[str, str]:
        """As docs/how-to/dask.md describes."""
        return {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}

    def ready(self) -> bool:
        return "Registered to" in self.tail()


class DaskCluster:
    """A scheduler with some workers."""

    def __init__(self, workers: int = 2) -> None:
        self.scheduler = DaskScheduler()
        self.workers = [DaskWorker(self.scheduler.address) for _ in range(workers)]

    @property
    def address(self) -> str:
        return self.scheduler.address

    @property
    def programs(self) -> tuple[Program, ...]:
        """Its processes, the scheduler last."""
        return (*self.workers, self.scheduler)

    def start(self) -> None:
        self.scheduler.start()
        for worker in self.workers:
            worker.spawn()
        for worker in self.workers:
            worker.wait_ready()

    def close(self) -> None:
        for program in self.programs:
            program.close()
