"""`payoff try`: from a table to the lab in the browser."""

import argparse
import io
import os
import re
import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path

import httpx

from app.commands.demo import client_of, service
from app.opening import data_limits
from app.settings import Settings
from app.tables.reading import column_names
from payoff.errors import PayoffError

_NAME_OF_MATRIX = "tried"


def run(chosen: argparse.Namespace) -> int:
    """Train on the table at the service of the port, or one that is started, and open the lab.

    Returns the exit code of the client's command that fails. A service that was started goes on
    until it is interrupted, unless it is to `exit`.
    """
    try:
        command = import_module("payoff_client.commands").main
    except ImportError:
        raise SystemExit(
            "install the client first: pip install ./clients/python"
        ) from None
    key = os.environ.get("PAYOFF_ADMIN_KEY")
    if key:
        os.environ.setdefault("PAYOFF_KEY", key)
    label = chosen.label or _chosen_label(Path(chosen.table))
    name = re.sub("[^a-z0-9_-]+", "-", Path(chosen.table).name.split(".")[0].lower())
    with _running(chosen.port) as (url, is_ours):
        print(f"training {name!r} to predict {label!r} at {url}")
        benefits = ["--benefits", chosen.benefits] if chosen.benefits else []
        train = ["train", chosen.table, "--label", label, "--name", name, *benefits]
        code = command([*train, "--url", url])
        if code:
            return code
        if chosen.benefits:
            matrix = f"{_NAME_OF_MATRIX}={chosen.benefits}"
            with redirect_stdout(io.StringIO()):  # all versions of the model
                command(["models", name, "--matrix", matrix, "--url", url])
        page = f"{url}/#/lab/{name}"
        print(f"what decisions earn: {page}")
        if not chosen.exit:
            webbrowser.open(page)
        if is_ours and not chosen.exit:
            print("Ctrl-C ends the service.")
            with suppress(KeyboardInterrupt):
                signal.pause()
    return 0


@contextmanager
def _running(port: int) -> Iterator[tuple[str, bool]]:
    """The URL of the service at this port, and whether it was started for this."""
    url = f"http://127.0.0.1:{port}"
    is_running = False
    with client_of(url) as client, suppress(httpx.TransportError):
        is_running = client.get("/health/live").is_success
    if is_running:
        yield url, False
    else:
        with service(port):
            yield url, True


def _chosen_label(table: Path) -> str:
    """The column that the user chooses among those of the table; by default the last.

    Raises SystemExit for a file that cannot be read.
    """
    try:
        with table.open("rb") as content:
            names = column_names(content, data_limits(Settings()))
    except (OSError, PayoffError) as error:
        raise SystemExit(f"payoff try: {error}") from error
    print("columns:", ", ".join(names))
    print(f"which one is to be predicted? [{names[-1]}] ", end="", flush=True)
    with suppress(EOFError):
        return input().strip() or names[-1]
    return names[-1]
