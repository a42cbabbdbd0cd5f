"""A page of the console in the browser, and how the console writes numbers."""

from __future__ import annotations

import csv
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.servers.fixtures import absent

_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""

FOLDER = Path(__file__).parents[2] / "app" / "console"
FIELD = "form input[inputmode=decimal] >> nth=0"  # the first number of a case
PLAIN_NAMES = ["age", "pulse", "pain"]
CELL = '[data-cell="0 1"]'


@dataclass(frozen=True)
class Site:
    """The service, and its keys."""

    url: str
    client: httpx.Client
    predict_key: str
    review_key: str = ""


class Tab:
    """A page of the console; `close` asserts that nothing foreign ran in it."""

    def __init__(self, browser: Any, site: Site, key: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(30_000)
        self.context.add_init_script(_WATCH)
        if key:
            self.context.add_init_script(
                f"if (location.pathname.startsWith('/console')) sessionStorage.setItem('payoff-key', '{key}')"
            )
        self.page = self.context.new_page()
        self.url = site.url
        self.wrong: list[str] = []
        self.page.on(
            "dialog",
            lambda dialog: (
                self.wrong.append(f"dialog: {dialog.message}"),
                dialog.dismiss(),
            ),
        )
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on(
            "console",
            lambda line: self.wrong.append(line.text) if _is_wrong(line) else None,
        )

    def open(self, view: str) -> Any:
        """The page once it shows the view, which is another one than before: that one counts as busy until then."""
        self.page.evaluate(
            "document.querySelector('main')?.setAttribute('aria-busy', 'true')"
        )
        self.page.goto(f"{self.url}/console/#/{view}")
        self.page.wait_for_selector("main:not([aria-busy]) > *")
        return self.page

    def close(self) -> None:
        assert self.page.evaluate("window.violations") == []
        assert self.wrong == []
        self.context.close()


def _is_wrong(line: Any) -> bool:
    """Chromium reports each status above 399 as an error."""
    return (
        line.type in ("error", "warning") and "Failed to load resource" not in line.text
    )


def press(page: Any, what: str, shown: str) -> None:
    """Click, and wait for what the page shows then."""
    page.click(what)
    page.wait_for_selector(shown)


def judged(page: Any) -> None:
    """Wait until the lab's figures are those of the matrix as it is now; each edit makes them busy at once."""
    page.wait_for_selector("payoff-chart:not([aria-busy])", state="attached")


def asked_of(page: Any) -> list[Any]:
    """The list that each further request of the page is added to."""
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - it takes functions only
    return asked


def query_of(request: Any) -> dict[str, str]:
    return {
        name: values[0]
        for name, values in parse_qs(urlsplit(request.url).query).items()
    }


def downloaded(page: Any) -> bytes:
    with page.expect_download() as download:
        page.click("text=Download the results")
    content: bytes = download.value.path().read_bytes()
    return content


def file_of(
    folder: Path,
    rows: list[list[Any]],
    *more: str,
    names: list[str] = PLAIN_NAMES,
    name: str = "cases.csv",
    delimiter: str = ",",
) -> str:
    """A table of cases, of `triage` where not told otherwise, with more columns or without."""
    path = folder / name
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([[*names, *more], *rows])
    return str(path)


def shown(value: float) -> str:
    """As the console writes numbers."""
    return f"{float(f'{value:.4g}'):,.12g}".replace("-", "\N{MINUS SIGN}")


def alike(value: float, *intervals: list[float]) -> str:
    """As the console writes numbers beside intervals: with three digits of the width of the narrowest one."""
    widths = [
        high - low
        for low, high in intervals
        if high - low > 1e-12 * max(abs(low), abs(high))
    ]
    if not widths:
        return shown(value)
    power = math.floor(math.log10(min(widths))) - 2
    rounded = value if power <= 0 else round(value / 10**power) * 10**power
    return f"{rounded:z,.{max(-power, 0)}f}".replace("-", "\N{MINUS SIGN}")


def intervals_of(report: dict[str, Any]) -> list[list[float]]:
    """Of a report on a benefit matrix."""
    return [
        one["interval"]
        for one in [*report["rules"], report["best"]]
        if one["interval"] is not None
    ]


def unchecked(reason: str) -> None:
    """Skip; where CI is to prove everything and could install the program, fail."""
    if shutil.which("npm"):
        absent(reason)
    pytest.skip(reason)
