"""The command line of the client: `payoff-client predict | train | retrieve | acquire | compare | models | outcomes`.

Exit codes: 0 success; 1 a job failed; 2 the arguments or a file cannot be used; 3 the service refused the request;
4 it is unavailable or busy; 5 the key is missing, invalid or not allowed; 130 interrupted.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from payoff_client import case_commands, model_commands
from payoff_client.client import Payoff
from payoff_client.completion import describe_completion, script
from payoff_client.errors import (
    Forbidden,
    JobFailed,
    PayoffError,
    PayoffWarning,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from payoff_client.terminal import Unusable, output_may_end, say
from payoff_client.version import __version__
from payoff_client.wire import LOG
from payoff_client.wording import on_command_line

_EXIT: dict[type[Exception], int] = {
    JobFailed: 1,
    Unusable: 2,
    OSError: 2,
    ValueError: 2,
    TypeError: 2,
    ImportError: 2,
    EOFError: 2,
    RecursionError: 3,
    Unauthorized: 5,
    Forbidden: 5,
    RateLimited: 4,
    Unavailable: 4,
    PayoffError: 3,
}


def main(arguments: Sequence[str] | None = None, *, prog: str = "payoff-client") -> int:
    """Run one command; returns the exit code."""
    parser = _parser(prog)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("always", PayoffWarning)
    warnings.showwarning = lambda message, *_others: say(f"warning: {on_command_line(str(message))}")
    retries = _Retries()
    LOG.addHandler(retries)
    try:
        with output_may_end():
            if chosen.command == "completion":
                print(script(parser, chosen.shell))
                return 0
            hurried: dict[str, Any] = {"retry_seconds": 0, "timeout": 2} if getattr(chosen, "names", False) else {}
            with Payoff(chosen.url, progress=False if chosen.json else None, **hurried) as client:
                chosen.run(client, chosen)
    except KeyboardInterrupt:
        return 130
    except tuple(_EXIT) as error:
        say(f"{prog}: {on_command_line(str(error))}")
        return next(_EXIT[kind] for kind in type(error).__mro__ if kind in _EXIT)
    finally:
        LOG.removeHandler(retries)
    return 0


class _Retries(logging.Handler):
    """Prints that a request is repeated, so that nobody waits without knowing why."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=f"Use a running service. {_CODES}")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, _, run) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}. {_CODES}")
        describe(name, command)
        command.set_defaults(run=run)
    describe_completion(commands.add_parser("completion", help="print a script that completes commands in a shell"))
    return parser


def describe(name: str, command: argparse.ArgumentParser) -> None:
    """Add the arguments of a command to its parser."""
    command.add_argument("--url", help="of the service (default PAYOFF_URL, or port 8000 here); the key is PAYOFF_KEY")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    COMMANDS[name][1](command)


_CODES = (
    "Exit codes: 1 job failed, 2 arguments or files, 3 refused by the service, 4 unavailable, 5 key, 130 interrupted."
)

_Describe = Callable[[argparse.ArgumentParser], None]
COMMANDS: dict[str, tuple[str, _Describe, Callable[[Payoff, argparse.Namespace], None]]] = {
    "predict": ("decide for a file of cases", case_commands.describe_predict, case_commands.predict),
    "train": ("train a model on a file", model_commands.describe_train, model_commands.train),
    "retrieve": (
        "choose sets with the smallest expected loss",
        case_commands.describe_retrieve,
        case_commands.retrieve,
    ),
    "acquire": (
        "ask for a case's features one by one until it is decided",
        case_commands.describe_acquire,
        case_commands.acquire,
    ),
    "compare": ("compare what learners and rules earn", model_commands.describe_compare, model_commands.compare),
    "models": ("list models, show one, move an alias", model_commands.describe_models, model_commands.models),
    "outcomes": (
        "report or send what became of recorded decisions",
        case_commands.describe_outcomes,
        case_commands.outcomes,
    ),
}

if __name__ == "__main__":
    sys.exit(main())
