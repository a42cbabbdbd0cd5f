"""The commands that need the stores and no HTTP server: `payoff worker`, `keys` and `rebuild`."""

from __future__ import annotations

import argparse
import signal
import threading
from types import FrameType

from prometheus_client import start_http_server

from app.access import cli
from app.job_processes import make_worker
from app.logs import configure
from app.metrics import of_worker
from app.settings import Settings
from app.stores import make_ports, make_tables, starting


def worker(chosen: argparse.Namespace) -> int:
    """Run jobs until SIGTERM or SIGINT."""
    with starting():
        settings = Settings()
        configure(settings.log_level)
        ports = make_ports(settings)
        working = make_worker(settings, ports)
        if settings.metrics_port is not None:
            start_http_server(settings.metrics_port, chosen.host, of_worker(ports, working))
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    working.run(stop)
    return 0


def keys(chosen: argparse.Namespace) -> int:
    """Make, list and revoke keys."""
    configure("warning")  # standard output is the key's alone
    with starting():
        return cli.run(chosen, make_tables(Settings()).keys)


def rebuild(_chosen: argparse.Namespace) -> int:
    """Publish the stored models that the database does not know."""
    with starting():
        found = make_ports(Settings()).registry.rebuild()
    print(f"{found} versions published")
    return 0
