"""Every view fits a phone and is accessible; some are pictures of the documentation, drawn by the console itself.

PAYOFF_PICTURES=1 draws the pictures in docs/images anew. And the files: what is served, under which policy.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import serving, settings_for, two_class_rows
from tests.console.conftest import ADMIN_KEY
from tests.console.demo import REFERRED
from tests.console.tab import FOLDER, Tab, judged, press, unchecked

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 60_000


def lab(page: Any) -> None:
    page.get_by_label("Saved matrix").select_option("autumn-2026")
    page.wait_for_selector("text=version 2, the newest")
    page.fill('[data-cell="0 1"]', "-5.5")
    judged(page)


def case(page: Any) -> None:
    for label, value in {"age": "61", "pulse": "84"}.items():
        page.get_by_label(label, exact=True).fill(value)
    page.get_by_label("pain", exact=True).select_option("=strong")
    press(page, "button:text-is('Decide')", ".decision")
    press(page, "button:text-is('Start')", "text=trees with an answer")
    page.evaluate("document.activeElement.blur()")
    page.locator("h2:text-is('One case')").evaluate("one => one.scrollIntoView()")


def uploaded(page: Any) -> None:
    rows = two_class_rows(500, seed=2)
    lines = [
        [*rows["features"], "diagnosis"],
        *(
            [*row, label]
            for row, label in zip(rows["rows"], rows["labels"], strict=True)
        ),
    ]
    text = "\n".join(",".join(map(str, line)) for line in lines)
    page.set_input_files(
        "input[type=file]",
        {"name": "patients.csv", "mimeType": "", "buffer": text.encode()},
    )
    press(page, "button:text-is('Upload')", "h3:text-is('Uploaded')")
    page.wait_for_selector("td >> text=Train")
    page.locator("h3:text-is('Uploaded')").evaluate("one => one.scrollIntoView()")


def chosen(page: Any) -> None:
    press(page, "text=Choose the set", "payoff-chart path")
    page.locator("payoff-chart").scroll_into_view_if_needed()


def reported(page: Any) -> None:
    page.wait_for_selector(".decision")
    page.locator("h2:text-is('The verdict')").evaluate("one => one.scrollIntoView()")


def trusted(page: Any) -> None:
    page.wait_for_selector("h2:text-is('Calibration curve')")
    page.locator("h2:text-is('Decision curve')").evaluate("one => one.scrollIntoView()")


def reviewed(page: Any) -> None:
    """A case of which something counts against the decision."""
    ready(page)
    for _ in range(REFERRED):
        if not page.locator(".case ol").count():
            page.keyboard.press("j")
            ready(page)
    page.evaluate("document.activeElement.blur()")
    page.locator(".ends").evaluate("one => one.scrollIntoView()")


def ready(page: Any) -> None:
    page.wait_for_selector("main:not(:has([aria-busy=true]))")


VIEWS: dict[str, Callable[[Any], None]] = {
    "models/triage/1": trusted,
    "lab/triage:1": lab,
    "cases/triage:1": case,
    "sets": chosen,
    "data": lambda page: page.wait_for_selector("td >> text=Train"),
    "jobs/new": ready,
    "outcomes/triage@champion": reported,
    "review/claims/action=refer": reviewed,
}  # of each there is a picture, named after the part before the first slash
WITHOUT = ("start", "models", "models/triage", "models/woods", "models/woods/1", "lab", "lab/woods@champion", "cases/woods:1", "jobs",
           "outcomes", "outcomes/woods", "lab/loans:1", "cases/loans:1", "cases/rents:1", "review", "review/woods",
           "models/offers/1", "lab/offers:1", "cases/offers:1")  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_fits_a_phone_and_is_accessible(
    browser, demo, loans, offers, scheme
):
    axe = _axe()
    rules = {"resultTypes": ["violations"]} | (
        {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    )
    tab = Tab(
        browser,
        demo,
        ADMIN_KEY,
        viewport={"width": 375, "height": 700},
        color_scheme=scheme,
    )
    for view, prepare in (VIEWS | dict.fromkeys(WITHOUT, ready)).items():
        page = tab.open(view)
        prepare(page)
        page.evaluate("""async () => {
            document.querySelectorAll("details").forEach((one) => { one.open = true; });
            await new Promise((go) => setTimeout(go));  // what they load makes the page busy
        }""")
        ready(page)

        assert page.evaluate("document.documentElement.scrollWidth") <= 375, view
        tables = "[...document.querySelectorAll('.scroll:not(.raw):has(> table:not(.matrix))')]"
        cut = f"{tables}.filter((one) => one.scrollWidth > one.clientWidth)"
        assert page.evaluate(f"{cut}.map((one) => one.ariaLabel)") == [], view
        if axe is not None:
            page.evaluate(axe)
            found = page.evaluate("(options) => axe.run(document, options)", rules)[
                "violations"
            ]
            grave = [one for one in found if one["impact"] in ("serious", "critical")]
            assert not grave, (
                view,
                [
                    (one["id"], [node["html"] for node in one["nodes"]][:3])
                    for one in grave
                ],
            )
    tab.close()
    if axe is None:
        unchecked("axe-core is not installed: npm install --global axe-core")


def _axe() -> str | None:
    """The script that examines a page, where npm has installed it."""
    folders = [
        os.environ.get("NODE_PATH", ""),
        "/usr/lib/node_modules",
        "/usr/local/lib/node_modules",
    ]
    found = [
        Path(folder) / "axe-core" / "axe.min.js"
        for folder in ":".join(folders).split(":")
        if folder
    ]
    return next((path.read_text() for path in found if path.exists()), None)


@pytest.mark.parametrize("view", VIEWS)
def test_the_pictures_of_the_documentation(browser, demo, view):
    path = DOCS / "images" / f"console-{view.partition('/')[0]}.png"
    assert f"(../images/{path.name})" in (DOCS / "how-to" / "console.md").read_text()
    if os.environ.get("PAYOFF_PICTURES"):
        size = {"viewport": {"width": 920, "height": 640}, "device_scale_factor": 0.75}
        tab = Tab(browser, demo, ADMIN_KEY, color_scheme="light", **size)
        VIEWS[view](tab.open(view))
        path.write_bytes(tab.page.screenshot())
        tab.close()
    assert 5_000 < path.stat().st_size <= MOST_BYTES


KINDS = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}
FILES = [path for path in FOLDER.iterdir() if path.suffix in KINDS]


def test_the_files_have_the_right_types_and_a_strict_policy(site):
    for path in FILES:
        answer = site.client.get(f"/console/{path.name}", headers={"X-API-Key": ""})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(KINDS[path.suffix])
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_files_are_small_and_load_nothing_from_elsewhere():
    assert sum(len(gzip.compress(path.read_bytes())) for path in FILES) <= 95_000
    markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
    )
    for path in FILES:
        text = path.read_text()
        assert set(re.findall(r"https?://[^\s\"']+", text)) <= {
            "http://www.w3.org/2000/svg"
        }, path.name
        assert not markup.search(text), path.name


def test_the_sample_is_the_table_of_the_demo(site):
    rows = list(
        csv.reader(
            site.client.get(
                "/console/sample.csv", headers={"X-API-Key": ""}
            ).text.splitlines()
        )
    )
    assert (len(rows), len(rows[0])) == (570, 31)
    assert {row[-1] for row in rows[1:]} == {"malignant", "benign"}


@pytest.mark.parametrize(
    "path",
    ["__init__.py", "__pycache__", "../settings.py", "..%2fsettings.py", "%2e%2e/"],
)
def test_nothing_else_is_served_below_the_console(site, path):
    assert site.client.get(f"/console/{path}").status_code == 404


def test_the_console_can_be_turned_off(tmp_path):
    with serving(settings_for(tmp_path, workers=0, console=False)) as client:
        assert client.get("/").headers["location"] == "/docs"
        assert (
            client.get("/console/").status_code
            == client.get("/console/main.js").status_code
            == 404
        )


def test_the_types_hold():
    if shutil.which("tsc") is None:
        unchecked("tsc is not on the path: npm install --global typescript@5")
    command = ["tsc", "-p", str(Path(__file__).with_name("tsconfig.json"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
