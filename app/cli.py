"""The command line: `payoff serve | worker | demo | reindex`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 where it did what was asked."""
    parser = argparse.ArgumentParser(
        prog="payoff", description="Predictions that decide. Settings are PAYOFF_… variables."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="answer HTTP requests")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    serve.add_argument("--port", type=int, default=8000, help="port to listen on (default %(default)s)")
    commands.add_parser("worker", help="run jobs of the shared job table, here, until told to stop")
    demo = commands.add_parser("demo", help="take real data through the service over HTTP, then go on serving")
    demo.add_argument("--port", type=int, default=8000, help="port to listen on (default %(default)s)")
    demo.add_argument("--url", help="show the service that answers there, rather than start one")
    demo.add_argument("--exit", action="store_true", help="stop at the end of the tour")
    commands.add_parser("reindex", help="rebuild the index of models from the registry's folder alone")
    chosen = parser.parse_args(arguments)
    if chosen.command == "serve":
        return _serve(chosen.host, chosen.port)
    if chosen.command == "worker":
        return _work()
    if chosen.command == "demo":
        from app.demo import run  # noqa: PLC0415 - its client library is not needed otherwise

        return run(port=chosen.port, stay=not chosen.exit, url=chosen.url)
    return _reindex()


def _serve(host: str, port: int) -> int:
    import uvicorn  # noqa: PLC0415 - a worker needs no HTTP server

    from app.api.app import create_app  # noqa: PLC0415
    from app.api.logs import configure  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415
    from app.wiring import wire  # noqa: PLC0415

    with _starting():
        settings = Settings()
        configure(settings.log_level)
        app = create_app(wire(settings))
    uvicorn.run(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http="httptools",
        access_log=False,  # the service writes its own, with request ids
        log_config=None,
        timeout_graceful_shutdown=int(settings.shutdown_seconds),
    )
    return 0


def _work() -> int:
    from app.api.logs import configure  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415
    from app.wiring import make_ports, make_worker  # noqa: PLC0415

    with _starting():
        settings = Settings()
        configure(settings.log_level)
        worker = make_worker(settings, make_ports(settings))
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    worker.run(stop)
    return 0


def _reindex() -> int:
    from app.settings import Settings  # noqa: PLC0415
    from app.wiring import make_ports  # noqa: PLC0415

    with _starting():
        ports = make_ports(Settings())
    found = ports.registry.rebuild()
    print(f"{found} versions found")
    return 0


@contextmanager
def _starting() -> Iterator[None]:
    """What settings make impossible ends the command with one line that names them, and exit code 2."""
    from pydantic import ValidationError  # noqa: PLC0415

    from app.database import DatabaseAway  # noqa: PLC0415
    from app.errors import PayoffError  # noqa: PLC0415

    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(map(str, first["loc"])).upper()
        reason = f"PAYOFF_{name}: {first['msg']}"
    except DatabaseAway as error:
        reason = f"the database cannot be used ({error.why}): PAYOFF_DATABASE, or the folder PAYOFF_HOME that holds it"
    except PayoffError as error:
        reason = error.detail
    except OSError as error:
        reason = (
            f"{error.filename or 'a folder'} cannot be used ({error.strerror or error}): PAYOFF_HOME and PAYOFF_MODELS"
        )
        reason += " name folders that can be written"
    else:
        return
    print(f"payoff: {reason}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    sys.exit(main())
