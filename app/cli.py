"""The command line: `payoff serve | worker | demo | check | keys | rebuild`."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from app import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, 0 on success."""
    options = _parser().parse_args(arguments)
    # Only the module of the command is imported: a worker needs no HTTP server.
    return import_module(f"app.commands.{options.command}").run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="payoff",
        description="Predictions that decide. Settings are PAYOFF_… variables.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="answer HTTP requests")
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default %(default)s)"
    )
    serve.add_argument(
        "--port", type=int, default=8000, help="port to listen on (default %(default)s)"
    )
    worker = commands.add_parser(
        "worker", help="run jobs of the shared job table until SIGTERM or SIGINT"
    )
    worker.add_argument(
        "--host",
        default="127.0.0.1",
        help="address for PAYOFF_METRICS_PORT (default %(default)s)",
    )
    demo = commands.add_parser(
        "demo",
        help="run a tour of the service with real data over HTTP, then keep serving",
    )
    demo.add_argument(
        "--port", type=int, default=8000, help="port to listen on (default %(default)s)"
    )
    demo.add_argument(
        "--url", help="URL of a running service to use instead of starting one"
    )
    demo.add_argument("--exit", action="store_true", help="stop at the end of the tour")
    check = commands.add_parser(
        "check", help="check settings and stores, and print how to fix what is wrong"
    )
    check.add_argument(
        "--deep",
        action="store_true",
        help="read every file of every model, not the cards alone",
    )
    _describe_keys(commands.add_parser("keys", help="make, list and revoke API keys"))
    commands.add_parser(
        "rebuild", help="publish the stored models that the database does not know"
    )
    return parser


def _describe_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    create = actions.add_parser(
        "create", help="create a key and print it; it is shown only once"
    )
    create.add_argument(
        "--name",
        required=True,
        help="owner of the key; shown in logs and in the audit log",
    )
    create.add_argument(
        "--scope",
        action="append",
        default=[],
        help="predict, train, metrics or admin; repeatable",
    )
    create.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="PATTERN",
        help="restrict the key to models that match, such as 'heart-*'; repeatable",
    )
    create.add_argument(
        "--days", type=float, metavar="90", help="validity; by default unlimited"
    )
    create.add_argument(
        "--rate",
        metavar="100/second",
        help="maximum number of requests per second, minute, hour or day",
    )
    create.add_argument(
        "--jobs", type=int, help="maximum number of queued and running jobs"
    )
    actions.add_parser("list", help="list all keys without their secrets")
    revoke = actions.add_parser(
        "revoke", help="revoke a key; takes effect in every process within a second"
    )
    revoke.add_argument("key", help="id or name of the key")


if __name__ == "__main__":
    sys.exit(main())
