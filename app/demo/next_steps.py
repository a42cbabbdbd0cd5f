"""What to try after the tour: an address of the console, a line of Python, and the address of the documentation."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from app.demo.service import answered

_MATRIX = "demo"


def show(client: httpx.Client, model: str, stakes: Mapping[str, Any], row: Sequence[float]) -> None:
    """Save the matrix of the tour for `model`, and print three lines to copy, of which Python's decides about `row`."""
    answered(client.put(f"/models/{model}/matrices/{_MATRIX}", json=stakes))
    url = str(client.base_url).rstrip("/")
    code = (
        "import numpy; from payoff_client import Payoff; "
        f'print(Payoff("{url}").model("{model}").decide(numpy.array([{list(row)}]), benefits="{_MATRIX}"))'
    )
    has_key = "X-API-Key" in client.headers
    key = 'PAYOFF_KEY="$PAYOFF_ADMIN_KEY" ' if has_key else ""
    print("Three ways to go on, to copy as they are (a tutorial is in docs/tutorial.md):")
    print(f"  console  {url}/" + ("    its key is in PAYOFF_ADMIN_KEY" if has_key else ""))
    print(f"  client   {key}{_python()} -c {shlex.quote(code)}")
    print(f"  docs     {url}/docs")


def _python() -> str:
    """The running interpreter, as a command in the folder in which the tour was started."""
    here = os.path.relpath(sys.executable)
    return shlex.quote(sys.executable if here.startswith("..") else str(Path(here)))
