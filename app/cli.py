"""The command line: `payoff serve | worker | demo | doctor | keys | backup | restore | …`, and the client's."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from app import __version__
from app.access import cli

_OF_CLIENT = {  # of `payoff_client.commands`, which is imported for them alone
    "predict": "decide for a file of cases",
    "train": "train a model on a file",
    "retrieve": "choose sets with the smallest expected loss",
    "acquire": "ask for a case's features one by one until it is decided",
    "compare": "compare what learners and rules earn",
    "models": "list models, show one, move an alias",
    "outcomes": "report or send what became of recorded decisions",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, 0 on success."""
    given = sys.argv[1:] if arguments is None else arguments
    return _as_client(given) if given and given[0] in _OF_CLIENT else _run(_parser().parse_args(given))


def _parser(describe: Callable[[str, argparse.ArgumentParser], None] | None = None) -> argparse.ArgumentParser:
    """`describe` adds the arguments of a client's command."""
    parser = argparse.ArgumentParser(
        prog="payoff", description="Predictions that decide. Settings are PAYOFF_… variables."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="answer HTTP requests")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    serve.add_argument("--port", type=_number(0, 65_535), default=8000, help="port to listen on (default %(default)s)")
    worker = commands.add_parser("worker", help="run jobs of the shared job table until SIGTERM or SIGINT")
    worker.add_argument("--host", default="127.0.0.1", help="address for PAYOFF_METRICS_PORT (default %(default)s)")
    demo = commands.add_parser("demo", help="run a tour of the service with real data over HTTP, then keep serving")
    demo.add_argument("--port", type=_number(0, 65_535), default=8000, help="port to listen on (default %(default)s)")
    demo.add_argument("--url", help="URL of a running service to use instead of starting one")
    demo.add_argument("--exit", action="store_true", help="stop at the end of the tour")
    doctor = commands.add_parser(
        "doctor", help="check settings, stores and workers, and print how to fix what is wrong"
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    doctor.add_argument("--deep", action="store_true", help="read every file of every model instead of only the cards")
    cli.describe(commands.add_parser("keys", help="make, list and revoke API keys"))
    commands.add_parser("reindex", help="rebuild the index of models from the stored models")
    out = commands.add_parser(
        "backup", help="copy models, data sets, jobs and keys to a new location; the service may run meanwhile"
    )
    out.add_argument("place", help="a folder, or s3://bucket/path")
    back = commands.add_parser("restore", help="restore a backup into an empty service")
    back.add_argument("place", help="the location given to `payoff backup`")
    shell = commands.add_parser("completion", help="print a script that completes commands in a shell")
    shell.add_argument("shell", choices=["bash", "zsh", "fish"])
    for name, purpose in _OF_CLIENT.items():
        command = commands.add_parser(name, help=f"{purpose} (a client's command)", add_help=False)
        if describe is not None:
            describe(name, command)
    return parser


def _run(chosen: argparse.Namespace) -> int:
    runs: dict[str, Callable[[], int]] = {
        "serve": lambda: _serve(chosen.host, chosen.port),
        "worker": lambda: _work(chosen.host),
        "demo": lambda: _demo(chosen),
        "doctor": lambda: _examine(as_json=chosen.json, deep=chosen.deep),
        "keys": lambda: _keys(chosen),
        "reindex": _reindex,
        "backup": lambda: _copy("backup", chosen.place),
        "restore": lambda: _copy("restore", chosen.place),
        "completion": lambda: _complete(chosen.shell),
    }
    return runs[chosen.command]()


def _demo(chosen: argparse.Namespace) -> int:
    from app.demo.tour import run  # noqa: PLC0415 - its client library is not needed otherwise

    return run(port=chosen.port, stay=not chosen.exit, url=chosen.url)


def _as_client(arguments: Sequence[str]) -> int:
    try:
        from payoff_client.commands import main as run  # noqa: PLC0415 - a service needs no client
    except ModuleNotFoundError as error:
        return _without_client(arguments[0], error)
    return run(arguments, prog="payoff")


def _complete(shell: str) -> int:
    try:
        from payoff_client.commands import describe  # noqa: PLC0415 - a service needs no client
        from payoff_client.completion import script  # noqa: PLC0415
        from payoff_client.terminal import output_may_end  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return _without_client("completion", error)
    with output_may_end():
        print(script(_parser(describe), shell))
    return 0


def _without_client(command: str, error: ModuleNotFoundError) -> int:
    print(f"payoff: {command} needs the client: pip install payoff-client ({error})", file=sys.stderr)
    return 2


def _number(low: int, high: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number within a range."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(high)) and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"expected a number from {low} to {high}, not {text[:20]!r}")
        return int(text)

    return parse


def _serve(host: str, port: int) -> int:
    gc.disable()  # until the service has started: what is imported stays, and searching it takes a tenth of the time
    from app.logs import configure  # noqa: PLC0415
    from app.serving import PortUnusable, serve  # noqa: PLC0415 - a worker needs no HTTP server
    from app.settings import Settings  # noqa: PLC0415

    with _starting():
        settings = Settings()
        configure(settings.log_level)
    try:
        serve(settings, host, port, _starting)
    except PortUnusable as error:
        print(f"payoff: {error}; choose another with --port or --host", file=sys.stderr)
        return 1
    return 0


def _work(host: str) -> int:
    from prometheus_client import start_http_server  # noqa: PLC0415

    from app import tracing  # noqa: PLC0415
    from app.job_processes import make_worker  # noqa: PLC0415
    from app.logs import configure  # noqa: PLC0415
    from app.metrics import of_worker  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415
    from app.stores import make_ports  # noqa: PLC0415

    with _starting():
        settings = Settings()
        configure(settings.log_level)
        ports = make_ports(settings)
        worker = make_worker(settings, ports)
        tracing.start(settings.telemetry)  # its jobs do; here it shows what is missing
        if settings.metrics_port is not None:
            start_http_server(settings.metrics_port, host, of_worker(ports, worker))
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    worker.run(stop)
    return 0


def _examine(*, as_json: bool, deep: bool) -> int:
    from pydantic import ValidationError  # noqa: PLC0415

    from app.doctor import Level, examine, impossible  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    logging.disable()  # the findings are printed below, once
    try:
        settings = Settings()
    except ValidationError as error:
        findings = impossible(error, os.environ)
    else:
        findings = examine(settings, os.environ, deep=deep)
    if as_json:
        print(json.dumps({"findings": [finding.as_dict() for finding in findings]}, indent=1))
    else:
        print("\n".join(finding.line() for finding in findings))
    return int(any(finding.level is Level.WRONG for finding in findings))


def _keys(chosen: argparse.Namespace) -> int:
    from app.settings import Settings  # noqa: PLC0415
    from app.stores import make_keys  # noqa: PLC0415

    with _starting():
        return cli.run(chosen, make_keys(Settings()))


def _reindex() -> int:
    from app.settings import Settings  # noqa: PLC0415
    from app.stores import make_ports  # noqa: PLC0415

    with _starting():
        found = make_ports(Settings()).registry.rebuild()
    print(f"{found} versions found")
    return 0


def _copy(command: str, place: str) -> int:
    from app.settings import Settings  # noqa: PLC0415
    from app.stores import make_ports, make_tables  # noqa: PLC0415
    from app.usecases.backup import backup, check_place, restore  # noqa: PLC0415

    with _starting():
        settings = Settings()
        stores = {"PAYOFF_MODELS": settings.models, "PAYOFF_DATASETS": settings.datasets_url}
        stores["PAYOFF_DECISIONS"] = settings.decisions_url
        check_place(place, stores)
        report = backup(make_ports(settings), place) if command == "backup" else restore(make_tables(settings), place)
    print("\n".join(report.lines()))
    return int(bool(report.left_out))


@contextmanager
def _starting() -> Iterator[None]:
    """A start that fails because of the settings ends with one line that names them, and exit code 2."""
    from pydantic import ValidationError  # noqa: PLC0415

    from app.database import DatabaseAway  # noqa: PLC0415
    from app.disks import of_error  # noqa: PLC0415
    from app.errors import PayoffError  # noqa: PLC0415
    from app.settings import refused  # noqa: PLC0415

    try:
        yield
    except ValidationError as error:
        reason = refused(error)[0]
    except DatabaseAway as error:
        fix = f"{error.fix}; " if error.fix else ""
        reason = f"the database cannot be used ({error.why}): {fix}PAYOFF_DATABASE names it, or the folder PAYOFF_HOME"
    except PayoffError as error:
        found = of_error(error.__cause__)
        reason = f"{error.detail}: {found.fix}" if found else error.detail
    except OSError as error:
        found = of_error(error)
        fix = f"{found.fix}; " if found else ""
        reason = f"{error.filename or 'a folder'} cannot be used ({error.strerror or error}): {fix}PAYOFF_HOME and"
        reason += " PAYOFF_MODELS name folders that can be written"
    else:
        return
    print(f"payoff: {reason}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    sys.exit(main())
