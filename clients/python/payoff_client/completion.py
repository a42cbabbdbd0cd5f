"""Scripts that complete commands in a shell: options, choices, files, and names of models."""

from __future__ import annotations

import argparse

from payoff_client.terminal import Unusable

SHELLS = ("bash", "zsh", "fish")
_FILES = frozenset({"file", "data", "benefits", "feature_costs", "out", "chart", "send", "place"})


def describe_completion(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=SHELLS)


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a parser's program; it asks the service for names when the user does. Unusable without shtab."""
    try:
        import shtab  # noqa: PLC0415 - optional
    except ImportError as error:
        raise Unusable("completion needs shtab: pip install 'payoff-client[completion]'") from error
    names = shtab.cmd(f"{parser.prog} models --names 2>/dev/null")
    for command in _subparsers(parser):
        for action in command._actions:
            if action.dest in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.dest == "model":
                action.complete = names  # type: ignore[attr-defined]
    found: str = shtab.complete(parser, shell=shell)
    return found


def _subparsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    groups = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [command for group in groups for command in group.values()]
