"""All of the service on one machine, as several machines would run it, every part to be killed on its own."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from tests.servers.dask import DaskScheduler, DaskWorker
from tests.servers.postgres import Postgres
from tests.servers.program import Program
from tests.servers.proxy import Proxy
from tests.servers.s3 import ObjectStore, access
from tests.servers.service import JobWorker, Replica


class System:
    """PostgreSQL, an S3 server, a Dask scheduler with two workers, two replicas and a worker.

    The database is reached through `to_database` and the store through `to_store`. The store keeps its objects in
    memory, which would go with its process: what is killed of it is the way there.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._stack = ExitStack()
        self.postgres = self._keep(Postgres())
        self.store = self._keep(ObjectStore())
        self.to_database = self._keep(Proxy(self.postgres.port))
        self.to_store = self._keep(Proxy(self.store.port))
        self.scheduler = self._keep(DaskScheduler())
        self.dask_workers = [
            self._keep(DaskWorker(self.scheduler.address)) for _ in range(2)
        ]
        for program in (self.postgres, self.store, self.scheduler, *self.dask_workers):
            program.spawn()
        for program in (self.postgres, self.store):
            program.wait_ready()
        self.to_database.start()
        self.to_store.start()
        self.bucket = self.store.create_bucket()
        self.database = self.postgres.create_database()
        self.settings = {
            "database": self.database.replace(
                f":{self.postgres.port}/", f":{self.to_database.port}/"
            ),
            "models": f"{self.bucket}/models",
            "datasets": f"{self.bucket}/datasets",
            "decisions": f"{self.bucket}/decisions",
            "dask": self.scheduler.address,
            **settings,
        }
        self.replicas = [
            self._keep(Replica(self.settings, self.environment)) for _ in range(2)
        ]
        self.worker = self._keep(JobWorker(self.settings, self.environment))

    @property
    def environment(self) -> Mapping[str, str]:
        return access(self.to_store.url)

    @property
    def programs(self) -> Iterator[Program]:
        """Every process, those first that others need."""
        yield from (
            self.postgres,
            self.store,
            self.scheduler,
            *self.dask_workers,
            *self.replicas,
            self.worker,
        )

    def revive(self) -> None:
        """Start what has ended, as who looks after containers does: a Dask worker ends with its scheduler."""
        for program in self.programs:
            if not program.running:
                program.spawn()

    def heal(self) -> None:
        """Have everything run that does not, and wait until all of it is ready."""
        if self.postgres.running:
            self.postgres.resume()
        self.to_database.start()
        self.to_store.start()
        self.revive()
        for program in self.programs:
            program.wait_ready()

    def close(self) -> None:
        self._stack.close()

    def _keep(self, part):
        self._stack.callback(part.close)
        return part
