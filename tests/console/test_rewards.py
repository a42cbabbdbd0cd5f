"""A model of rewards in the console: trained by a form, its card with pictures, and decisions less costs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.console.offers import customers, earned
from tests.console.tab import alike, press


@pytest.fixture(scope="module")
def metrics(offers):
    return offers.client.get("/models/offers/versions/1").json()["metrics"]


def lines_of(page, caption):
    rows = page.locator(f"table:has(caption:has-text('{caption}')) tbody tr")
    return {
        cells[0]: cells[1:]
        for cells in (one.split("\t") for one in rows.all_inner_texts())
    }


def test_the_card_shows_every_way_with_its_interval_and_verdict(tab, metrics):
    page = tab.open("models/offers/1")
    assert page.inner_text(".decision") == "The policy earns more than what was done"
    lines = lines_of(page, "Reward per case in EUR")
    singles = {f"always {one['action']}": one for one in metrics["actions"]}
    assert [*lines] == ["the policy", "the log", *singles]
    ranges = [
        [one["low"], one["high"]]
        for one in (metrics["value"], *(one["value"] for one in singles.values()))
    ]
    assert lines["the log"][0] == alike(metrics["logged"], *ranges)
    for name, one in singles.items():
        value, gain = one["value"], one["gain_over"]
        assert lines[name][0] == alike(value["mean"], *ranges)
        low, high = (alike(value[end], *ranges) for end in ("low", "high"))
        assert lines[name][1] == f"{low}\u00a0to\u00a0{high}"
        assert lines[name][3].startswith(
            alike(gain["mean"], [gain["low"], gain["high"]])
        )
        assert lines[name][4] == "more than chance"
    shares = lines_of(page, "Actions in these rows")
    assert [int(cells[0]) for cells in shares.values()] == [
        one["rows"] for one in metrics["actions"]
    ]


def test_pictures_are_of_what_is_chosen(tab, metrics):
    page = tab.open("models/offers/1")
    promised = page.locator("section:has(h2:text-is('Expected and observed rewards'))")
    assert promised.locator("svg[role=img] circle").count() == len(
        metrics["calibration"]
    )
    promised.get_by_label("Of").select_option("always mail")
    bins = metrics["actions"][1]["calibration"]
    assert promised.locator("svg[role=img] circle").count() == len(bins)
    uplift = page.locator("section:has(h2:text-is('Uplift'))")
    choices = uplift.locator("option").all_inner_texts()
    assert choices == ["the best treatment of each case", "call", "mail"]
    best = uplift.locator("svg[role=img]").get_attribute("aria-label")
    assert best.startswith("Treating ")
    uplift.get_by_label("Instead of none").select_option("call")
    assert uplift.locator("svg[role=img]").get_attribute("aria-label") != best
    area = metrics["uplift"]["treatments"][0]["area"]
    assert alike(area["mean"], [area["low"], area["high"]]) in uplift.inner_text()


def test_a_case_is_decided_less_costs(tab, offers):
    page = tab.open("cases/offers:1")
    page.get_by_label("age", exact=True).fill("70")
    page.get_by_label("region", exact=True).select_option("=south")
    press(page, "button:text-is('Decide')", ".decision")
    assert page.inner_text(".decision") == "call"
    assert "uplift" in page.inner_text("table:has-text('Expected benefit')")
    page.get_by_label("Cost of call").fill("100")
    with page.expect_request("**/predict") as request:
        press(page, "button:text-is('Decide')", ".decision:text-is('none')")
    sent = json.loads(request.value.post_data)
    assert (sent["costs"], sent["baseline"]) == ({"call": 100}, "none")
    assert (
        "matrix"
        not in tab.open("lab/offers:1").inner_text("main").split("no benefit matrix")[1]
    )


def test_a_log_is_trained_on_by_a_form(tab, offers):
    made = offers.client.get("/datasets").json()["datasets"]
    log = next(one["id"] for one in made if one["name"] == "campaign")
    page = tab.open(f"jobs/new/{log}/rewards")
    assert page.input_value("label:text-is('Learner') + select") == "rewards"
    assert page.get_by_label("rewards", exact=True).count() == 0  # to compare
    page.get_by_label("action", exact=True).fill("offer")
    page.get_by_label("propensity", exact=True).fill("chance")
    page.get_by_label("Name of the model").fill("quick")
    with page.expect_request("**/train") as request:
        page.click("button:text-is('Train')")
    learner = {"kind": "rewards", "action": "offer", "propensity": "chance"}
    assert json.loads(request.value.post_data)["learner"] == learner
    page.wait_for_selector("h2:text-is('Ways to decide')", timeout=60_000)
    assert "Train with a baseline" in page.inner_text("main")
    assert page.locator("a:text-is('Matrix lab')").count() == 1  # in the navigation
    offers.client.delete("/models/quick")


def test_outcomes_show_what_was_earned_and_the_gain_over_each_way(tab, offers):
    random = np.random.default_rng(5)
    rows = customers(random, 300)
    body = {"model": "offers", "instances": rows, "explore": 0.3, "record": True}
    answer = offers.client.post("/predict", json=body).json()
    rewards = earned(random, rows, answer["decisions"])
    outcomes = [
        {"id": id_, "benefit": reward}
        for id_, reward in zip(answer["ids"], rewards, strict=True)
    ]
    offers.client.post("/outcomes", json={"outcomes": outcomes}).raise_for_status()
    report = offers.client.get("/models/offers/outcomes").json()["rewards"]
    page = tab.open("outcomes/offers")
    page.wait_for_selector("h2:text-is('The policy without exploration')")
    lines = lines_of(page, "What the policy earns more per case in EUR")
    gains = {
        "all that was decided": report["policy"]["gain"],
        **{
            f"always {single['action']}": single["gain_over"]
            for single in report["policy"]["single_actions"]
        },
    }
    assert [*lines] == [*gains]
    for name, gain in gains.items():
        assert lines[name][0].startswith(
            alike(gain["mean"], [gain["low"], gain["high"]])
        )
    assert "{" not in page.inner_text("main")  # no JSON
