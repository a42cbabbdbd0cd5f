"""`payoff worker`: run jobs of the shared job table until SIGTERM or SIGINT."""

import argparse
import signal
from threading import Event

from prometheus_client import start_http_server

from app.monitoring.logs import configure
from app.monitoring.metrics import of_worker
from app.opening import prepare_stores, starting
from app.settings import Settings
from app.workers import make_worker


def run(chosen: argparse.Namespace) -> int:
    with starting():
        settings = Settings()
        configure(settings.log_level)
        stores = prepare_stores(settings)
        worker = make_worker(settings, stores)
        if settings.metrics_port is not None:
            start_http_server(
                settings.metrics_port, chosen.host, of_worker(stores, worker)
            )
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    worker.start()
    stop.wait()
    worker.stop()
    return 0
