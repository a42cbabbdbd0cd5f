"""The console in a browser: its views, keys, failures, a narrow screen, and names that contain markup."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.api.charts import Axis
from tests.conftest import serving, settings_for
from tests.console.conftest import ACTIONS, ADMIN_KEY, CLASSES, FEATURES, hostile_rows
from tests.console.tab import Tab, alike, intervals_of, judged, unchecked

FOLDER = Path(__file__).parents[2] / "app" / "console"


def test_without_a_key_or_with_a_wrong_one_the_console_asks_for_it(browser, site):
    tab = Tab(browser, site, "")
    page = tab.open("models")

    assert "API key" in page.inner_text(".problem")
    page.click("text=Enter a key")
    page.fill("dialog input", "wrong")
    page.click("text=Use this key")
    page.wait_for_selector("text=does not accept this key")
    page.click("#key")
    page.fill("dialog input", ADMIN_KEY)
    page.click("text=Use this key")
    page.wait_for_selector("td >> text=champion → 1")
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    tab.close()


def test_a_stopped_and_a_slow_service(tab):
    page = tab.page
    page.clock.install()
    page.route("**/models?*", lambda route: route.abort())
    tab.open("models")
    assert "does not answer" in page.inner_text(".problem")

    page.unroute("**/models?*")
    waiting: list[Any] = []
    page.route("**/models?*", lambda route: waiting.append(route))  # noqa: PLW0108 - it takes functions only
    with page.expect_request("**/models?*"):
        page.click("button:text-is('Retry')")
    page.clock.run_for(3500)
    page.click("text=Stop waiting")
    page.wait_for_selector("text=You stopped waiting")
    page.unroute("**/models?*")
    page.click("button:text-is('Retry')")
    page.wait_for_selector("text=woods")
    assert page.inner_text("#slow") == ""


def test_models_and_moving_an_alias(tab, site):
    page = tab.open("models")
    page.click("main a:text-is('woods')")
    page.select_option("select", "2")
    page.click("text=Move…")
    page.click("dialog >> text=Move the alias")
    page.wait_for_selector("dd:text-is('version 2')")
    assert site.client.get("/models/woods").json()["aliases"] == {"champion": 2}

    tab.open("models/woods/2")
    assert all(name in page.inner_text("main") for name in (*FEATURES, *CLASSES))
    page.click("text=Draw the chart")
    page.wait_for_selector("img.chart")
    assert all(
        page.evaluate("Promise.all([...document.images].map((one) => one.decode().then(() => one.naturalWidth)))")
    )


def test_the_lab_follows_the_matrix(tab, site, tmp_path):
    """Figures, curve, changed cases, limits and the code to copy, of the matrix as it was edited last."""
    page = tab.open("lab/woods:1")
    page.wait_for_selector("payoff-chart path")
    before = page.get_attribute("payoff-chart path", "d")
    for value in ("-1", "-2", "-3"):  # of which the last one counts
        page.fill('[data-cell="0 1"]', value)
    report = site.client.post(
        "/models/woods:1/benefit", json={"benefits": [[0, -3], [-10, 5]], "actions": ACTIONS}
    ).json()
    widths = intervals_of(report)
    judged(page)
    now, *others = page.locator("dd").all_inner_texts()
    assert now.startswith(f"{alike(report['expected_benefit']['benefit'], *widths)} (")
    assert alike(report["upper_bound"], *widths) in others
    assert page.get_attribute("payoff-chart path", "d") != before
    for code in ("curl", "Python"):
        page.click(f"summary:text-is('{code}')")
    codes = page.locator("pre").all_inner_texts()
    row = json.dumps({CLASSES[0]: dict(zip(ACTIONS, (0, -3), strict=True))}, separators=(",", ":"))[1:-1]
    assert [row in code.replace("'\\''", "'") and ADMIN_KEY not in code for code in codes] == [True, True], codes

    page.click("text=Use as reference")
    page.set_input_files("input[type=file]", cases_file(tmp_path))
    page.wait_for_selector("text=0 of 200 cases get another action")
    page.fill('[data-cell="0 1"]', "-30")
    page.wait_for_selector("text=The first")
    page.click("summary:text-is('Limits')")
    page.fill("[data-action]  >> nth=1", "3")
    page.wait_for_selector("text=shadow price is what")
    page.focus("input[type=range]")
    page.keyboard.press("ArrowRight")
    page.click("text=Add an action")
    page.wait_for_selector("th:text-is('action 3')")
    page.keyboard.type("refer")  # its name has the focus, and keeps its place when it has changed
    page.keyboard.press("Tab")
    page.wait_for_selector("th:text-is('refer')")
    assert page.evaluate("document.activeElement.closest('payoff-matrix') !== null")
    page.click("th button >> nth=2")
    assert page.evaluate("document.activeElement.closest('payoff-matrix') !== null")


def cases_file(folder: Path, n: int = 200) -> str:
    """A file of cases with a column that is no feature, whose values contain quotes, line ends and markup."""
    path = folder / "<img src=x onerror=alert(8)>.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", *FEATURES])
        writer.writerows([f'"{i}",\n<script>alert(9)</script>', *row] for i, row in enumerate(hostile_rows(n)["rows"]))
    return str(path)


def test_a_case_is_decided_and_acquired(tab):
    page = tab.open("cases/woods:1")
    page.click("button:text-is('Decide')")
    page.wait_for_selector("text=Enter at least one value")
    page.fill("form input[inputmode=decimal] >> nth=0", "61")
    page.select_option("form select >> nth=0", "=strong")
    page.click("button:text-is('Decide')")
    page.wait_for_selector("text=What each feature adds")
    assert page.inner_text(".decision") in ACTIONS
    page.fill("form input[inputmode=decimal] >> nth=0", "62")
    assert page.locator(".decision").count() == 0, "a decision does not stay beside other values"
    page.uncheck("text=Stop when a question costs more than it gains")
    page.click("button:text-is('Start')")
    asked = []
    while True:
        page.wait_for_selector("text=trees with an answer")
        question = page.locator("form:has(button:text-is('Answer'))")
        if question.count() == 0:
            break
        asked.append(question.locator("label").inner_text())
        if len(asked) == 1:
            question.get_by_text("Cannot be obtained").click()
        else:
            field = question.locator("input, select").first
            if field.evaluate("one => one.tagName") == "SELECT":
                field.select_option("=mild")
            else:
                field.fill("70")
            question.get_by_text("Answer").click()
        page.wait_for_selector("td:text-is('cannot be obtained')")
        page.wait_for_selector("main:not(:has([aria-busy=true]))")
    assert asked
    assert set(asked) <= {f"{name}?" for name in FEATURES}
    assert "It stops here" in page.inner_text("main")


def test_a_file_of_cases_is_decided_in_chunks_as_the_service_decides_it_whole(tab, site, tmp_path):
    path = cases_file(tmp_path, 5000)
    page = tab.open("cases/woods:1")
    page.set_input_files("input[type=file]", path)
    with page.expect_request("**/predict?*"):
        page.click("text=Decide all")
    page.wait_for_selector("text=5,000 rows decided")
    with page.expect_download() as download:
        page.click("text=Download the results")
    query = {"model": "woods:1", "benefits": "[[0,-1],[-10,5]]", "actions": json.dumps(ACTIONS), "keep": '["note"]'}
    whole = site.client.post(
        "/predict",
        content=Path(path).read_bytes(),
        params=query,
        headers={"Content-Type": "text/csv", "Accept": "text/csv"},
    )

    assert Path(path).stat().st_size > 2**18
    assert download.value.path().read_bytes() == whole.content


def test_a_file_whose_name_and_columns_have_markup_is_uploaded(tab, tmp_path):
    """test_tutorial.py goes on from there."""
    path = tmp_path / "<svg onload=alert(10)>.csv"
    rows = hostile_rows(120)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*FEATURES, "</option><script>alert(11)</script>"])
        writer.writerows([*row, label] for row, label in zip(rows["rows"], rows["labels"], strict=True))
    page = tab.open("models")
    page.click("nav >> text=Data")
    page.set_input_files("input[type=file]", str(path))
    page.click("button:text-is('Upload')")
    page.click("text=Train a model on it")
    for view in ("jobs", "data"):
        tab.open(view)
        page.wait_for_selector("table")


@pytest.mark.thorough
def test_a_wrong_order_shows_the_place_and_cancelling_asks_first(tab, site):
    page = tab.open("jobs/new")
    page.select_option("form select >> nth=0", "logistic")
    page.click("summary:text-is('Parameters')")
    page.fill("form input >> nth=0", "slow")
    page.locator("form").first.evaluate("form => { form.noValidate = true; }")
    page.locator("label:text-is('C') + input").evaluate("one => one.removeAttribute('min')")
    page.fill("label:text-is('C') + input", "-4")
    page.click("button:text-is('Train')")
    page.wait_for_selector(".problem b:text-is('learner > C (-4): ')")
    assert "slow" not in [one["name"] for one in site.client.get("/models").json()["models"]]

    page.route("**/train/job_x", lambda route: route.fulfill(json=RUNNING))
    page.route(
        "**/train/job_x/events",
        lambda route: route.fulfill(
            body=f"data: {json.dumps(RUNNING | {'stage': 'half <b>way</b>', 'progress': 0.5})}\n\n"
        ),
    )
    tab.open("jobs/train/job_x")
    page.wait_for_selector("p:text-is('half <b>way</b>')")
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    page.click("text=Cancel…")
    with page.expect_request("**/train/job_x/events"):  # the next one, as the stream has ended
        page.click("dialog >> button:text-is('Cancel')")
    assert "DELETE" not in methods


RUNNING = {
    "id": "job_x",
    "kind": "train",
    "status": "running",
    "progress": 0.1,
    "stage": "reading",
    "attempt": 1,
    "requested": {"model": "m", "learner": {"kind": "auto"}},
    "created_at": "2026-01-01T00:00:00Z",
    **dict.fromkeys(("error", "model", "metrics", "warnings")),
}


def test_sets_are_chosen_and_drawn(tab, site):
    page = tab.open("sets")
    items = {"<img src=x onerror=alert(12)>": 0.2, "b": 0.9, "c": 0.6}
    page.fill("textarea", "\n".join(f"{name},{p}" for name, p in items.items()))
    page.click("text=Choose the set")
    answer = site.client.post(
        "/retrieve", json={"probabilities": [*items.values()], "setting": "binary", "loss": {"name": "f_beta"}}
    ).json()["sets"][0]
    page.wait_for_selector("payoff-chart path")
    assert page.locator("tbody th").all_inner_texts() == [list(items)[place] for place in answer["selected"]]
    page.fill("textarea", "0.2, 1.7")
    page.click("text=Choose the set")
    page.wait_for_selector(".problem b:text-is('probabilities > 1 (1.7): ')")
    wrong = {"probabilities": [0.2, 1.7], "setting": "binary", "loss": {"name": "f_beta"}}
    detail = site.client.post("/retrieve", json=wrong).json()["detail"]
    assert page.inner_text(".problem").count(detail) == 1
    page.fill("textarea", "0.2, 0.7\n0.1, 0.9")
    page.select_option("select >> nth=0", "multilabel")
    page.click("text=Choose the set")
    page.wait_for_selector("h2:text-is('Set 2')")


def test_the_report_on_outcomes_is_readable_and_every_amount_has_its_basis(tab, site):
    page = tab.open("outcomes")
    page.click("main a:text-is('woods')")
    page.wait_for_selector(".decision")
    page.select_option("form select >> nth=0", "woods:1")
    assert page.locator(".decision").count() == 0, "a report does not stay beside another choice"
    page.select_option("form select >> nth=1", "action")
    page.fill("form input >> nth=0", "2026-03-01")
    page.fill("form input >> nth=1", "2026-03-02")
    page.click("text=Show the report")
    page.wait_for_selector(".decision")
    query = {"since": "2026-03-01", "until": "2026-03-03T00:00:00Z", "by": "action"}
    report = site.client.get("/models/woods:1/outcomes", params=query).json()
    text = page.inner_text(".report")

    assert report["selective"]["is"]
    assert page.locator(".warnings li").all_inner_texts() == report["warnings"]
    assert page.inner_text(".decision") == VERDICTS[report["verdict"]]
    assert report["decisions"] == 400
    for part in (report["realised"], report["difference"]):
        assert f"{alike(part['mean'], [part['low'], part['high']])} (" in text
    assert all(name in text for name in (*ACTIONS, *CLASSES, FEATURES[0]))
    about = [part["basis"] for part in (report["realised"], report["expected"], report["bounds"])]
    tables = [one.inner_text() for one in page.locator("table:has(th:text-matches('realised|per decision'))").all()]
    assert len(tables) >= 5
    assert all(any(basis in one for basis in about) for one in tables)
    drifted = [line for line in (*report["drift"]["scores"], *report["drift"]["features"]) if line["drifted"]]
    assert page.locator("caption:text-is('Drifted') ~ tbody tr").count() == len(drifted) > 0


VERDICTS = {
    "within_10_percent": "As promised, within 10 %",
    "over_promises": "The model promises too much",
    "under_promises": "The model promises too little",
    "undecided": "Undecided",
}


def test_a_link_made_by_others_reaches_no_other_path(tab):
    """The part of the address after # names jobs and models; dots in it must not lead to other routes."""
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    for view in (
        "jobs/train/..%2Fmodels%2Fwoods",
        "jobs/train/..",
        "models/..%2Fdatasets",
        "lab/..%2Faudit",
        "__proto__",
    ):
        page = tab.open(view)
        assert page.locator("text=Cancel…").count() == 0, view
    assert not [url for url in asked if "audit" in url.replace("%2Faudit", "") or "/models/woods" in url]


@pytest.mark.parametrize(("encoding", "end"), [("utf-16", "\n"), ("utf-16", "\r\n"), ("latin-1", "\n")])
def test_the_columns_of_a_file_follow_its_encoding(tab, encoding, end):
    text = end.join(["age;städte;state", *("40.5;Köln;ill", "31;Bonn;well") * 20, ""])
    page = tab.open("data")
    page.set_input_files("input[type=file]", {"name": "wide.csv", "mimeType": "", "buffer": text.encode(encoding)})
    page.wait_for_selector("text=wide.csv")
    page.get_by_label("Encoding").select_option(encoding)
    page.wait_for_selector("form select >> nth=0 >> option:text-is('städte')", state="attached")
    for label in ("Column to predict", "More columns to predict"):
        found = page.locator(f"label:text-is('{label}') + select option")
        assert [one.strip() for one in found.all_text_contents()] == ["age", "städte", "state"], label
    page.click("button:text-is('Upload')")
    page.wait_for_selector("h3:text-is('Uploaded'), .problem")
    assert page.locator(".problem").all_inner_texts() == []
    assert page.inner_text("dt:text-is('target') + dd") == "state"


def test_long_lists_are_listed_to_the_end(tab):
    def answer(route: Any) -> None:
        page = int(re.findall(r"page_token=(\d+)|$", route.request.url)[0] or 0)
        lines = [{"name": f"m{page}-{i}", "latest": 1, "versions": [1], "aliases": {}} for i in range(100)]
        route.fulfill(json={"models": lines, "next_page_token": str(page + 1) if page < 10 else None})

    tab.page.route("**/models?*", answer)
    page = tab.open("models")
    assert page.locator("tbody tr").count() == 1100


@pytest.mark.thorough
def test_a_key_for_predictions_does_what_it_may(browser, demo):
    site = demo
    tab = Tab(browser, site, site.predict_key)
    page = tab.open("models/woods")
    assert "needs a key with the scope 'train'" in page.inner_text("main")
    for view in ("data", "jobs", "outcomes/woods"):
        tab.open(view)
        assert "train" in page.inner_text(".problem")
    tab.open("lab/triage")
    page.wait_for_selector("payoff-chart path")
    page.get_by_label("Saved matrix").select_option("autumn-2026")
    page.wait_for_selector("text=autumn-2026, version 2, the newest")
    page.wait_for_selector(".saved >> text=Saving and deleting them need a key with the scope 'train'")
    assert page.locator("button:text-is('Save'), button:text-is('Delete…')").count() == 0
    tab.close()


def test_an_error_in_a_file_names_the_place(tab, tmp_path):
    path = tmp_path / "wrong.csv"
    path.write_text("age\n1\n")
    page = tab.open("cases/woods:1")
    page.set_input_files("input[type=file]", str(path))
    page.click("text=Decide all")
    page.wait_for_selector(".problem")
    assert FEATURES[0] in page.inner_text(".problem")
    path.write_text("")
    page.set_input_files("input[type=file]", str(path))
    page.click("text=Decide all")
    page.wait_for_selector(".problem:has-text('empty')")


def test_the_scales_are_those_of_the_service(tab):
    page = tab.open("models")
    script = "([low, high]) => import('/console/chart.js').then(({Axis}) => Axis.around([low, high], 10, 90).ticks(5))"
    for ends in ([0, 1], [-3.2, 17.5], [1e-7, 3e-7], [-2e6, 5e6], [5, 5], [99.98, 100.02], [-4e-3, 2e9],
                 [0, 0], [1e-12, 1e-12], [-3e15, -3e15], [1e8, 1e8 + 1], [-5e8, 4e8]):  # fmt: skip
        expected = Axis.around(ends, 10, 90).ticks(5)
        found = page.evaluate(script, ends)

        assert [label for _, label in found] == [label for _, label in expected]
        assert [value for value, _ in found] == pytest.approx([value for value, _ in expected])


def test_the_files_have_the_right_types_and_a_strict_policy(site):
    for path in FOLDER.glob("*.*"):
        if path.suffix == ".py":
            continue
        answer = site.client.get(f"/console/{path.name}", headers={"X-API-Key": ""})
        kind = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}[
            path.suffix
        ]
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["__init__.py", "__pycache__", "../settings.py", "..%2fsettings.py", "none", "%2e%2e/"]
)
def test_nothing_else_is_served_below_the_console(site, path):
    assert site.client.get(f"/console/{path}").status_code == 404


def test_the_console_can_be_turned_off(tmp_path):
    with serving(settings_for(tmp_path, workers=0, console=False)) as client:
        assert client.get("/").headers["location"] == "/docs"
        assert client.get("/console/").status_code == client.get("/console/main.js").status_code == 404


def test_the_files_are_small_and_load_nothing_from_elsewhere():
    files = [path for path in FOLDER.iterdir() if path.suffix in (".js", ".css", ".html", ".svg")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 75 * 1024
    for path in files:
        text = path.read_text()
        assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}, path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), (
            path.name
        )


def test_the_types_hold():
    if shutil.which("tsc") is None:
        unchecked("tsc is not on the path: npm install --global typescript@5")
    done = subprocess.run(
        ["tsc", "-p", str(Path(__file__).with_name("tsconfig.json"))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
