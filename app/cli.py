"""The command line: `payoff serve | worker | demo | try | check | keys | rebuild`, and where the
client is installed its commands, too.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

from app import __version__

_FIRST = """Predictions that decide. What people want first:

  payoff try table.csv    train on a file of yours, and see in the browser what decisions earn
  payoff demo             a tour with real data
  payoff serve            answer HTTP requests; the console is at http://127.0.0.1:8000
  payoff --help           everything else"""
_CLIENT = "payoff_client"
_MODULES = {
    "serve": "serve",
    "worker": "worker",
    "demo": "demo",
    "try": "trial",
    "check": "check",
    "keys": "keys",
    "rebuild": "rebuild",
}
"""The commands of the service, and their modules."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, 0 on success."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words:
        print(_FIRST)
        return 0
    # Only the module of the command is imported: a worker needs no HTTP server, and the service no
    # client.
    if words[0] in _MODULES:
        options = _parser().parse_args(words)
        return import_module(f"app.commands.{_MODULES[options.command]}").run(options)
    commands = _commands_of_client()
    if words[0] in commands:
        return import_module(f"{_CLIENT}.commands").main(words)
    _parser(commands).parse_args(words)  # help, the version, or an error
    return 0


def _commands_of_client() -> dict[str, str]:
    """The commands of the client, with what each does; none where it is not installed."""
    if find_spec(_CLIENT) is None:
        return {}
    commands = import_module(f"{_CLIENT}.commands").COMMANDS
    return {name: text for name, (text, *_) in commands.items()}


def _parser(commands_of_client: Mapping[str, str] = {}) -> argparse.ArgumentParser:
    """The parser of the service's commands, whose help names those of the client, too."""
    epilog = "\n".join(
        f"  {name:20}{text}" for name, text in commands_of_client.items()
    )
    parser = argparse.ArgumentParser(
        prog="payoff",
        description="Predictions that decide. Settings are PAYOFF_… variables.",
        epilog=f"on a running service:\n{epilog}" if epilog else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    _describe_trial(
        commands.add_parser(
            "try", help="train on a table, and see in the browser what decisions earn"
        )
    )
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


def _describe_trial(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", help="CSV (also .gz) or Parquet")
    parser.add_argument(
        "--label", help="column to predict (asked for; by default the last)"
    )
    parser.add_argument(
        "--benefits", metavar="FILE", help="JSON file: {class: {action: number}}"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        help="port of the service (default %(default)s)",
    )
    parser.add_argument(
        "--exit", action="store_true", help="open no browser, and stop when trained"
    )


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
        help="predict, train, review, metrics or admin; repeatable",
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
