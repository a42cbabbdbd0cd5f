"""`payoff serve` and `payoff worker` as real processes."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import psutil

from tests.servers.program import Program, free_port


class Payoff(Program):
    """One process of the product, with settings by their names without the prefix (`home`, `models`, …)."""

    module = "app.cli"

    def __init__(
        self,
        settings: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._settings = {
            f"PAYOFF_{name.upper()}": str(value) for name, value in settings.items()
        }
        self._environment = dict(environment or {})

    def environment(self) -> Mapping[str, str]:
        own = {
            "PAYOFF_HOME": str(self.folder / "home"),
            "PAYOFF_MODELS": str(self.folder / "models"),
        }
        return own | self._settings | self._environment

    @property
    def home(self) -> Path:
        return Path(self.environment()["PAYOFF_HOME"])

    def jobs(self) -> list[psutil.Process]:
        """The processes of its jobs."""
        return [
            child
            for fork_server in self.fork_servers()
            for child in _children(fork_server)
        ]

    def fork_servers(self) -> list[psutil.Process]:
        """The process that jobs are forked from, if it runs."""
        return [
            child
            for child in _children(psutil.Process(self.pid))
            if _is_fork_server(child)
        ]


class Replica(Payoff):
    """`payoff serve`, and a client of it."""

    name = "replica"

    def __init__(
        self,
        settings: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(settings, environment)
        self.port = free_port()
        self.client = httpx.Client(base_url=self.url, timeout=60)
        self.reason = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        return ["serve", "--port", str(self.port)]

    def ready(self) -> bool:
        try:
            answer = self.client.get("/health/ready")
        except httpx.TransportError as error:
            self.reason = repr(error)
            return False
        self.reason = answer.text
        return answer.status_code == 200

    def tail(self, characters: int = 3000) -> str:
        """The end of what it wrote, and why it was not ready when last asked."""
        return f"{super().tail(characters)}\n{self.reason}"

    def close(self) -> None:
        super().close()
        self.client.close()


class JobWorker(Payoff):
    """`payoff worker`; ready as soon as it runs, since it says nothing until it has a job."""

    name = "worker"

    def arguments(self) -> list[str]:
        return ["worker"]

    def ready(self) -> bool:
        return self.running


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def _is_fork_server(process: psutil.Process) -> bool:
    try:
        return "forkserver" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
