"""Messages of the service in terms of the client: of Python, or of its command line."""

from __future__ import annotations

import re
from urllib.parse import unquote

_METHODS = {
    "acquire": "model.acquire",
    "benefit": "model.benefit",
    "compare": "client.compare",
    "datasets": "client.datasets.upload",
    "outcomes": "client.send_outcomes",
    "predict": "model.decide",
    "retrieve": "model.retrieve",
    "train": "client.train",
}
_ROUTE = re.compile(rf"`?\bPOST /({'|'.join(_METHODS)})\b(?![-/])`?")
_PARAMETER = re.compile(r"\bsend \??(\w+)=(\S+?)(?=, or | if |$)")
_KEY = re.compile(r"\bsend (a key|a valid one) in the X-API-Key header, or as a bearer token")
_SAVED = re.compile(r"\bPUT /models/([^/ ]+)/matrices/(\S+)")
_COMMANDS = {
    "client.compare": "`compare`",
    "client.datasets.upload": "`train FILE --label COLUMN`",
    "client.send_outcomes": "`outcomes --send`",
    "client.train": "`train`",
    "model.acquire": "`acquire`",
    "model.benefit": "`model.benefit` of the Python client",
    "model.decide": "`predict`",
    "model.retrieve": "`retrieve`",
}
_METHOD = re.compile(rf"`({'|'.join(map(re.escape, _COMMANDS))})`")
_RECORDED = re.compile(r"\bdecide with record=True\b")
_PASSED = re.compile(r"\bpass (delimiter|decimal|encoding)=('[^']*')")
_KEY_PASSED = re.compile(r"\bpass (a key|a valid one) as key=, or set PAYOFF_KEY")
_SAVE = re.compile(r"\bmodel\.matrices\.save\((\S+)\) of (\S+)")
_STEP = re.compile(r"\[(\d+|'[^']*')\]")
_PLACE = re.compile(
    r"^(benefits|budget|decimal|delimiter|encoding|feature_costs|folds|holdout|label|learner|loss|name|rule|seed)"
    rf"((?:{_STEP.pattern})*)(?=: | is )",
    re.MULTILINE,
)
_RECORD = re.compile(r'\bsend "record": true(?: to /predict\b)?')


def in_python(message: str) -> str:
    """The message as the client's caller can follow it."""
    message = _PARAMETER.sub(lambda found: f"pass {found[1]}={unquote(found[2])!r}", message)
    message = _KEY.sub(r"pass \1 as key=, or set PAYOFF_KEY", message)
    message = _SAVED.sub(r"model.matrices.save(\2) of \1", message)
    message = _RECORD.sub("decide with record=True", message)
    return _ROUTE.sub(lambda found: f"`{_METHODS[found[1]]}`", message)


def on_command_line(message: str) -> str:
    """A message for Python's caller as the user of a command can follow it: options in place of arguments."""
    message = _PASSED.sub(r"use --\1 \2", message)
    message = _KEY_PASSED.sub(r"set PAYOFF_KEY to \1", message)
    message = _SAVE.sub(r"models \2 --matrix \1=FILE", message)
    message = _METHOD.sub(lambda found: _COMMANDS[found[1]], message)
    message = _RECORDED.sub("decide with record=True of the Python client", message)
    return _PLACE.sub(lambda found: ", ".join([_option(found[1]), *map(_item, _STEP.findall(found[2]))]), message)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _item(step: str) -> str:
    return f"item {int(step) + 1}" if step.isdigit() else step


def argument(pointer: str) -> str:
    """A JSON pointer into the request as a place in an argument: `/benefits/ill/0` is `benefits['ill'][0]`."""
    name, *steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]] or [""]
    return name + "".join(f"[{step}]" if step.isascii() and step.isdigit() else f"[{step!r}]" for step in steps)
