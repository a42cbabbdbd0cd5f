"""A real PostgreSQL server from Debian's package."""

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from tests.servers.program import Program, free_port

_BINARIES = sorted(
    Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name)
)
_OPTIONS = (
    "fsync=off",  # a killed process loses nothing that it wrote: only a power cut would
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=32MB",
    "log_min_messages=fatal",
)


def installed() -> bool:
    """Whether there is a PostgreSQL to run."""
    return bool(_BINARIES) or shutil.which("initdb") is not None


class Postgres(Program):
    """One server with any number of databases; root starts it as the user `postgres`, since it refuses root."""

    name = "postgres"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self._data = self.folder / "data"
        if self._as_other:
            owner = pwd.getpwnam("postgres")
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        line = [
            _binary("initdb"),
            "-D",
            self._data,
            "-U",
            "payoff",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
        ]
        subprocess.run(
            [*self._as_other, *map(str, line)],
            check=True,
            capture_output=True,
            cwd=self.folder,
        )

    def command(self) -> list[str]:
        options = [
            word
            for option in (f"port={self.port}", *_OPTIONS)
            for word in ("-c", option)
        ]
        return [*self._as_other, _binary("postgres"), "-D", str(self._data), *options]

    def ready(self) -> bool:
        try:
            psycopg.connect(self._line("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL to the server and all its back ends, as when the machine loses them together."""
        backends = self.descendants() if self.running else []
        super().kill()
        for process in backends:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(backends, timeout=10)

    def create_database(self) -> str:
        """The URL of a fresh empty database."""
        name = f"test_{secrets.token_hex(6)}"
        with self.admin() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return f"postgresql+psycopg://payoff@127.0.0.1:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        """Remove what `create_database` made, whoever is connected to it."""
        with self.admin() as connection:
            connection.execute(
                f"DROP DATABASE IF EXISTS {url.rsplit('/', 1)[1]} WITH (FORCE)"
            )

    @contextmanager
    def admin(self):
        """A connection that commits each statement."""
        with psycopg.connect(
            self._line("postgres"), autocommit=True, connect_timeout=5
        ) as connection:
            yield connection

    def _line(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=payoff dbname={database}"

    @property
    def _as_other(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        return [
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
            "--pdeathsig",
            "KILL",
            "--",
        ]


def _binary(name: str) -> str:
    return str(_BINARIES[-1] / name) if _BINARIES else name
