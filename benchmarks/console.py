"""How fast the console is in a browser: .venv/bin/python benchmarks/console.py

Starts a service with a model whose hold-out has 10,000 rows, and Chromium. Prints the time to the first paint with the
processor throttled four times, and the times from moving the slider of the matrix lab to the redrawn figures.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.conftest import serving, settings_for, trained, two_class_rows

MOVES = 100
ROWS = 40_000  # of which a quarter is held out
_REDRAWN = """async (value) => {
    const slider = document.querySelector("input[type=range]");
    const chart = document.querySelector("payoff-chart");
    const before = performance.now();
    const drawn = new Promise((resolve) => {
        new MutationObserver((_, watch) => { watch.disconnect(); resolve(); }).observe(chart, {childList: true});
    });
    slider.value = String(value);
    slider.dispatchEvent(new Event("input"));
    await drawn;
    await new Promise(requestAnimationFrame);
    return performance.now() - before;
}"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serving(settings_for(Path(folder))) as client:
        order = {"learner": {"kind": "logistic"}, "data": two_class_rows(ROWS), "holdout": 0.25}
        trained(client, {"model": "triage", **order})
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            paints = [first_paint(browser, str(client.base_url)) for _ in range(5)]
            times = sorted(moves(browser.new_page(), str(client.base_url)))
            browser.close()
    print(f"first paint, processor throttled four times: {statistics.median(paints):.0f} ms")
    print(f"slider to redrawn, {MOVES} moves: median {times[MOVES // 2]:.0f} ms, p95 {times[MOVES * 95 // 100]:.0f} ms")


def first_paint(browser: Any, url: str) -> float:
    context = browser.new_context()
    page = context.new_page()
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.goto(f"{url}/")
    page.wait_for_selector("main:not([aria-busy]) > *")
    paints = page.evaluate("performance.getEntriesByType('paint').map((one) => one.startTime)")
    context.close()
    return float(paints[-1])


def moves(page: Page, url: str) -> list[float]:
    page.goto(f"{url}/console/#/lab/triage")
    page.wait_for_selector("payoff-chart path")
    page.focus('[data-cell="1 0"]')
    return [page.evaluate(_REDRAWN, -10 + move / 10) for move in range(MOVES)]


if __name__ == "__main__":
    main()
