"""`payoff worker`: run jobs of the shared job table until SIGTERM or SIGINT."""

import argparse
import signal
from threading import Event

from prometheus_client import start_http_server

from app.job_processes import make_worker
from app.logs import configure
from app.metrics import of_worker
from app.settings import Settings
from app.stores import make_ports, starting


def run(chosen: argparse.Namespace) -> int:
    with starting():
        settings = Settings()
        configure(settings.log_level)
        ports = make_ports(settings)
        working = make_worker(settings, ports)
        if settings.metrics_port is not None:
            start_http_server(settings.metrics_port, chosen.host, of_worker(ports, working))
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    working.start()
    stop.wait()
    working.stop()
    return 0
