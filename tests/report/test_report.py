"""The report on outcomes against ledgers kept case by case, in worlds whose truth is known."""

import json
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from app.outcomes.decision import UNKNOWN, Terms
from app.report import slices as slicing
from app.report.changes import drift, feature_changes, sides
from app.report.report import Read, document
from app.report.slices import slices
from app.report.ways import Exploration
from payoff.decisions.benefit import decide
from tests.effort import repeated
from tests.reference.evidence import ledger
from tests.report.outcome_worlds import DAY, day_of_cases, money, terms_of

TRAINED = np.array([0.88, 0.12])
OTHER = terms_of(((0.0, -2.0), (-35.0, 3.0)), version=2)


def read_of(days, by=None):
    read = Read(lambda version: (TRAINED if version < 3 else None, 1_000), by)
    for cases in days:
        read.add(cases)
    return read


def reported(days, by=None):
    return document(read_of(days, by), [])


def worlds():
    rng = np.random.default_rng(1)
    yield [
        day_of_cases(rng, 300, DAY + d, known=0.7, overrides=0.1, told=0.2)
        for d in range(5)
    ]
    yield [
        day_of_cases(
            rng, 200, DAY + d, terms=[terms_of(), OTHER], known_after=[0.2, 0.9]
        )
        for d in range(3)
    ]
    yield [
        day_of_cases(
            rng,
            40,
            terms=[
                replace(OTHER, benefits=((0.0, -k), (-9.0, k))) for k in (1.0, 2.0, 3.0)
            ],
        )
    ]
    wide = terms_of(
        ((0.0, -2.0, 3.0, 4.0), (-35.0, 3.0, -300.0, -300.0)),
        actions=("wait", "treat", "a", "b"),
    )
    mixed = day_of_cases(rng, 300, known=0.8, terms=[terms_of(), OTHER] * 2)
    yield [
        replace(mixed, terms=[terms_of(), wide, OTHER, OTHER]),
        replace(mixed, day=DAY + 1, terms=[wide, OTHER] * 2),
    ]


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("days", [*worlds()])
def test_sums_are_those_of_a_ledger(days, parts, monkeypatch):
    if parts:
        monkeypatch.setattr(slicing, "CELLS", 20)
        monkeypatch.setattr(slicing, "ROW_CELLS", 100)
    report, kept = reported(days), ledger(days)
    ways = report["alternatives"]

    assert (report["decisions"], report["known"]) == (kept["decisions"], kept["known"])
    assert report["expected"]["total"] == pytest.approx(kept["expected"])
    assert report["realised"]["total"] == pytest.approx(kept["received"])
    assert report["difference"]["mean"] * kept["known"] == pytest.approx(
        kept["decided"] - kept["promised"]
    )
    assert ways["decided"]["total"] == pytest.approx(kept["decided"])
    assert ways["perfect"]["total"] == pytest.approx(kept["perfect"])
    assert ways["most_probable"]["total"] == pytest.approx(kept["most_probable"])
    assert ways["best_single_action"]["action"] == max(
        kept["single"], key=kept["single"].get
    )
    assert (report["bounds"]["low"], report["bounds"]["high"]) == pytest.approx(
        (kept["received"] + kept["low"], kept["received"] + kept["high"])
    )
    after = {
        line["action"]: [line["known"], line["decisions"]]
        for line in report["selective"]["actions"]
    }
    assert after == kept["known_after"]
    assert report["overrides"]["cases"] == kept["overridden"]
    if kept["overridden"]:
        assert report["overrides"]["mean"] == pytest.approx(
            kept["overrides"] / kept["overridden"]
        )


@pytest.mark.parametrize("days", [*worlds()])
def test_the_series_adds_up_day_by_day(days):
    """The band begins narrow, and is at the end the interval of the report."""
    read = read_of(days)
    realised = document(read, [])["realised"]
    series = read.total.series(realised)

    assert series["day"] == [f"2024-10-{4 + d:02}" for d in range(len(days))]
    for number, (promised, received) in enumerate(
        zip(series["promised"], series["realised"], strict=True), 1
    ):
        kept = ledger(days[:number])
        assert promised == pytest.approx(kept["promised"])
        assert received == pytest.approx(kept["received"])
    if realised["low"] is None:
        assert series["low"] == series["high"] == [None] * len(days)
        return
    n = realised["cases"]
    assert series["low"][-1] == pytest.approx(n * realised["low"])
    assert series["high"][-1] == pytest.approx(n * realised["high"])
    widths = np.subtract(series["high"], series["low"])
    assert (widths > 0).all()
    assert (np.diff(widths) >= 0).all()


def test_a_series_has_the_days_with_known_truth_alone():
    rng = np.random.default_rng(1)
    days = [day_of_cases(rng, 40, DAY + d, known=float(d == 1)) for d in range(3)]
    read = read_of(days)
    assert read.total.series(document(read, [])["realised"])["day"] == ["2024-10-05"]


@pytest.mark.parametrize("by", ["day", "week", "action", "version", "key"])
def test_groups_add_up_to_all(by):
    days = [*worlds()][1]
    report = reported(days, by)

    assert len(report["groups"]) > 1 or by == "week"
    for path in (
        ("decisions",),
        ("known",),
        ("expected", "total"),
        ("realised", "total"),
        ("realised", "cases"),
    ):
        values = [
            found[path[0]] if len(path) == 1 else found[path[0]][path[1]]
            for found in (report, *report["groups"])
        ]
        assert sum(values[1:]) == pytest.approx(values[0])
    json.dumps(report)
    names = {"day": ["2024-10-04", "2024-10-05", "2024-10-06"], "week": ["2024-09-30"]}
    assert [group["group"] for group in report["groups"]] == names.get(
        by, [one["group"] for one in report["groups"]]
    )


def test_a_segment_in_which_the_model_is_wrong_is_found_and_small_ones_are_pooled():
    """Of four segments one has four times the odds: its difference and its calibration are clear after Holm's
    correction. Decisions without the segment are a group of their own.
    """
    rng = np.random.default_rng(5)
    names = [{"region": name} for name in ("a", "b", "c", "tiny")]
    days = []
    for d in range(6):
        for k, (odds, n) in enumerate(((1.0, 300), (1.0, 300), (4.0, 300), (1.0, 3))):
            cases = day_of_cases(rng, n, DAY + d, odds=odds)
            code = np.full(n, k + 1)
            code[0] = 0
            days.append(replace(cases, segments=[None, *names], segment=code))
    read = Read(
        lambda _version: (TRAINED, 1_000), "segment:region", common=("a", "b", "c")
    )
    for cases in days:
        read.add(cases)
    groups = {group["group"]: group for group in document(read, [])["groups"]}

    assert {name: group["decisions"] for name, group in groups.items()} == {
        "a": 6 * 299, "b": 6 * 299, "c": 6 * 299, "other": 6 * 2, None: 6 * 4,
    }  # fmt: skip
    verdicts = {name: group["verdict"] for name, group in groups.items()}
    assert verdicts == dict.fromkeys(groups, "undecided") | {"c": "under_promises"}
    clear = [
        name
        for name, group in groups.items()
        if (group["calibration"]["adjusted_p_value"] or 1.0) < 0.05
    ]
    assert clear == ["c"]
    assert groups["c"]["calibration"]["low"] > 0
    for group in groups.values():
        assert sum(line["share"] for line in group["actions"]) == pytest.approx(1)


def test_a_better_challenger_is_found_where_each_case_has_its_own_amount():
    """By about 29 for each case; one range for all cases left it undecided."""
    rng, days = np.random.default_rng(29), []
    for d in range(40):
        amounts = 500 * np.exp(rng.normal(size=200))
        terms = [terms_of(((0.0, -0.1 * amount), (-amount, 0.0))) for amount in amounts]
        cases = day_of_cases(rng, 200, DAY + d, terms=terms)
        choice, rival = (
            np.where(rng.random(200) < share, 1 - cases.choice, cases.choice)
            for share in (0.4, 0.05)
        )
        days.append(
            replace(
                cases,
                choice=choice.astype(np.int32),
                shadows={"triage:2": rival.astype(np.int32)},
            )
        )
    (shadow,) = reported(days)["shadow"]

    assert (shadow["verdict"], shadow["gain"]["mean"]) == (
        "better",
        pytest.approx(29, abs=10),
    )


@pytest.mark.parametrize("unit", [1e-30, 2.0**200, 1e98])
def test_amounts_of_any_size_are_reported_as_finite_numbers(unit):
    rng, days = np.random.default_rng(20), []
    terms = terms_of(
        tuple(tuple(unit * cell for cell in row) for row in terms_of().benefits)
    )
    for d in range(12):
        cases = day_of_cases(
            rng,
            200,
            DAY + d,
            terms=[terms, OTHER],
            known=0.8,
            epsilon=0.2,
            overrides=0.2,
            told=0.5,
        )
        days.append(replace(cases, shadows={"triage:3": 1 - cases.choice}))

    report = reported(days, "key")
    json.dumps(report, allow_nan=False)
    assert report["overrides"]["low"] is not None


def test_decisions_without_a_matrix_are_counted_and_said():
    cases = day_of_cases(np.random.default_rng(2), 100)
    none = Terms(
        "predict", "triage", 1, "most_probable", ("healthy", "ill"), ("healthy", "ill")
    )
    bare = replace(cases, day=DAY + 1, terms=[none], expected=np.full(100, np.nan))
    report, alone = reported([cases, bare]), reported([cases])

    assert (report["decisions"], report["realised"]["cases"]) == (200, 100)
    assert report["realised"]["total"] == pytest.approx(alone["realised"]["total"])
    assert (
        "100 decisions have no benefit matrix; they are counted, and no amount is about them"
        in report["warnings"]
    )
    assert reported([bare])["verdict"] == "undecided"


def test_a_promise_that_is_kept_and_one_that_is_not():
    """The verdict and what to do come first."""
    rng = np.random.default_rng(3)
    kept = reported([day_of_cases(rng, 7000, DAY + d) for d in range(8)])
    days = [
        replace(day, received_at=day.at)
        for day in (day_of_cases(rng, 1500, DAY + d, odds=2.0) for d in range(8))
    ]
    report = reported(days, "action")
    terms = [terms_of(((0.0, 0.0), (-20.0, -19.0)))]
    better = [day_of_cases(rng, 1500, DAY + d, odds=0.5, terms=terms) for d in range(8)]

    assert (kept["verdict"], kept["advice"]) == ("within_10_percent", [])
    assert reported(better)["verdict"] == "under_promises"
    assert list(report)[:4] == ["promised", "realised", "difference", "verdict"]
    assert report["realised"]["mean"] - report["promised"]["mean"] == pytest.approx(
        report["difference"]["mean"]
    )
    assert report["verdict"] in ("over_promises", "under_promises")
    assert report["priors"]["versions"][0]["changed"]
    assert "priors" in report["advice"][0]
    waited = report["groups"][1]
    assert (waited["group"], waited["verdict"]) == ("wait", "over_promises")


def test_the_one_of_many_groups_that_is_not_as_promised_is_found():
    """And none of those that alone would seem so."""
    rng = np.random.default_rng(17)
    days = [
        day_of_cases(rng, 1_500, DAY + d, odds=3.0 if d == 7 else 1.0)
        for d in range(60)
    ]
    groups = reported(days, "day")["groups"]
    wrong = [
        (place, one["verdict"])
        for place, one in enumerate(groups)
        if one["verdict"].endswith("er_promises")
    ]
    assert wrong == [(7, "under_promises")]
    assert (
        sum(
            one["difference"]["low"] > 0 or one["difference"]["high"] < 0
            for one in groups
        )
        >= 3
    )


def test_people_who_know_better_and_people_who_do_not():
    """By the same matrix: a benefit that is told lower says nothing about who was right."""
    rng = np.random.default_rng(5)
    guessing = day_of_cases(rng, 2000, overrides=0.3)
    report = reported([guessing])
    assert report["overrides"]["right"] == "decisions"
    less = reported([replace(guessing, benefit=np.full(2000, -1000.0))])
    assert less["overrides"] == report["overrides"]
    assert less["told_benefits"]["mean"] < -900

    cases = day_of_cases(rng, 40_000)
    best = np.array(cases.terms[0].benefits)[cases.truth].argmax(axis=1)
    knowing = replace(
        cases, action=np.where(rng.random(40_000) < 0.3, best, -1).astype(np.int32)
    )
    assert reported([knowing])["overrides"]["right"] == "people"


@pytest.mark.parametrize("rare", [1.0, 400.0])
def test_no_gain_has_an_interval_without_enough_cases_of_a_class(rare):
    days = [
        replace(cases, received_at=cases.at + 1)
        for cases in (
            day_of_cases(
                np.random.default_rng(d), 300, DAY + d, rare=rare, overrides=0.5
            )
            for d in range(10)
        )
    ]
    report = document(read_of(days), [])
    ways = report["alternatives"]
    gains = [
        ways[way]["gain"] for way in ("most_probable", "best_single_action", "perfect")
    ]
    gains.append(report["overrides"])

    assert all(one["cases"] > 0 for one in gains)
    assert [one["low"] is not None for one in gains if one["differing"] >= 30] == [
        rare == 1.0
    ] * sum(one["differing"] >= 30 for one in gains)


def explored(cases):
    found = Exploration()
    for part in slices(cases):
        found.add(part)
    return found.document()["ways"]["without_exploration"]


def test_exploration_estimates_are_unbiased_where_truth_is_known_after_one_action_alone():
    """The mean benefit of all cases, known or not, within the error of the simulation (3 standard errors)."""
    rng, errors, naive = np.random.default_rng(6), [], []
    for _ in range(repeated(450)):
        truth = []
        own = [terms_of(((2.0, -1.0), (-20.0, 5.0)))]
        cases = day_of_cases(
            rng, 400, known_after=[0.0, 1.0], epsilon=0.3, truth=truth, terms=own
        )
        y, best, M, _P = truth[0]
        real = M[np.arange(400), y, best].mean()
        way = explored(cases)
        errors.append((way["ips"]["mean"] - real, way["dr"]["mean"] - real))
        known = cases.truth >= 0
        naive.append(M[np.arange(400), y, cases.choice][known].mean() - real)

    errors = np.array(errors)
    assert (
        np.abs(errors.mean(axis=0)) < 3 * errors.std(axis=0) / np.sqrt(len(errors))
    ).all()
    assert abs(np.mean(naive)) > 0.3  # what the known cases alone say


@pytest.mark.parametrize("odds", [1.0, 1.5])
def test_intervals_by_propensities_hold_or_are_not_given(odds):
    rng, given, held = np.random.default_rng(12), 0, [0, 0]
    world = {"known_after": [0.3, 0.9], "epsilon": 0.3, "odds": odds}
    truth = []
    day_of_cases(np.random.default_rng(13), 200_000, truth=truth, **world)
    y, best, M, _P = truth[0]
    real = M[np.arange(len(y)), y, best].mean()
    for _ in range(repeated(210)):
        way = explored(day_of_cases(rng, 800, **world))
        if way["dr"]["low"] is None:
            assert not way["usable"]
            continue
        given += 1
        for i, name in enumerate(("ips", "dr")):
            held[i] += way[name]["low"] <= real <= way[name]["high"]

    assert given > 50
    assert min(held) / given >= 0.92 - 3 * np.sqrt(0.08 * 0.92 / given)
    few = explored(day_of_cases(rng, 100, known_after=[0.0, 1.0], epsilon=0.1))
    assert few["dr"]["low"] is None


def test_shadows_are_compared_by_a_sequence():
    rng = np.random.default_rng(8)
    days = []
    for d in range(30):
        cases = day_of_cases(rng, 400, DAY + d)
        treat = np.ones(400, dtype=np.int32)
        days.append(
            replace(
                cases,
                shadows={
                    "triage:2": cases.choice,
                    "triage:3": 1 - treat,
                    "triage:4": treat * -1,
                },
            )
        )

    same, waits, never = reported(days)["shadow"]

    assert (same["verdict"], same["differing"]) == ("undecided", 0)
    assert (waits["verdict"], waits["challenger"]) == ("worse", "triage:3")
    assert never["cases"] == 0
    assert [one["reason"] for one in (same, waits, never)] == [
        "the interval contains 0",
        None,
        "the interval contains 0",
    ]


def one_by_one(cases):
    """The same cases, each on a day of its own."""
    columns = [
        field.name
        for field in fields(cases)
        if isinstance(getattr(cases, field.name), np.ndarray)
    ]
    for i in range(len(cases)):
        yield replace(
            cases,
            day=cases.day + i,
            **{name: getattr(cases, name)[i : i + 1] for name in columns},
        )


@pytest.mark.parametrize("rare", [6.0, 1.0])
def test_the_best_single_action_does_not_depend_on_how_many_cases_a_day_has(rare):
    cases = day_of_cases(np.random.default_rng(21), 400, rare=rare)
    together, apart = (
        reported(days)["alternatives"]["best_single_action"]
        for days in ([cases], one_by_one(cases))
    )

    M = np.array(cases.terms[0].benefits)[cases.truth]
    assert (
        apart["gain"].pop("low")
        <= together["gain"].pop("low")
        < together["gain"].pop("high")
        <= apart["gain"].pop("high")
    )
    assert apart == together  # but for the interval, which is by days
    assert apart["mean"] == pytest.approx(
        M.mean(axis=0).max()
    )  # it is the same in both halves
    assert (
        reported(list(one_by_one(cases))[:1])["alternatives"]["best_single_action"]
        is None
    )


def test_a_decision_is_drawn_or_best_by_the_rule_of_decisions():
    """Of several that are best up to rounding it is the first, also in reports that have wider matrices."""
    rng, n = np.random.default_rng(24), 5_000
    P = rng.integers(1, 10, (n, 3)) / 10.0
    P /= P.sum(axis=1, keepdims=True)
    terms = terms_of(
        ((0.1, 0.3, 0.2), (0.3, 0.1, 0.2), (0.2, 0.2, 0.2)),
        actions=("a", "b", "c"),
        classes=(0, 1, 2),
    )
    best = decide(P, np.array(terms.benefits)).choice
    drawn = rng.random(n) < 0.3
    choice = np.where(drawn, rng.integers(0, 3, n), best)
    wide = terms_of(((0.0,) * 5,) * 4, actions=tuple("abcde"), classes=(0, 1, 2, 3))
    cases = replace(
        day_of_cases(rng, n),
        terms=[replace(terms, figures={"explore": 0.3}), wide],
        term=np.zeros(n, dtype=np.int32),
        probabilities=np.column_stack((P, np.full(n, np.nan))),
        choice=choice.astype(np.int32),
        propensity=np.where(choice == best, 0.7 + 0.1, 0.1),
    )
    exploration = read_of([cases]).exploration

    _, _, found, epsilon, _ = exploration.cases.columns()[:5]
    names = list(exploration.labels)
    assert [names[int(code)] for code in found] == [
        terms.actions[action] for action in best
    ]
    assert set(epsilon) == {0.3}


def test_scores_of_partly_known_cases_do_not_drift():
    cases = day_of_cases(np.random.default_rng(25), 300)
    acquired = replace(cases, day=DAY + 1, terms=[replace(terms_of(), verb="acquire")])
    scores = read_of([cases, acquired]).scores.by_day[1, terms_of().classes]

    assert {day: counts[0].sum() for day, counts in scores.items()} == {
        DAY: 300,
        DAY + 1: 0,
    }


def test_instances_are_drawn_with_the_same_chance_within_each_side(monkeypatch):
    """Halves of the days that have instances, whatever order they are read in."""
    monkeypatch.setattr("app.report.changes.KEPT", 3_000)
    sizes = {0: 0, 1: 1_000, 2: 9_000, 3: 0, 4: 300, 5: 2_700}
    found = sides(
        SimpleNamespace(
            day=day,
            instances=[f'{{"day": {day}}}'] * n,
            terms=[terms_of()],
            term=np.zeros(n, dtype=int),
        )
        for day, n in sizes.items()
    )
    for own, (rare, often) in zip(found, ((1, 2), (4, 5)), strict=True):
        days = [one["day"] for _, one in own]
        assert set(days) == {rare, often}
        assert days.count(rare) / len(days) == pytest.approx(
            0.1, abs=4 * np.sqrt(0.09 / len(days))
        )
    assert len(found[0]) + len(found[1]) == 3_000


@pytest.mark.parametrize("share", [0.3, 0.9, 1.0])
@pytest.mark.parametrize(
    "value", [lambda rng: rng.normal(), lambda rng: "ab"[rng.random() < 0.5]]
)
def test_a_feature_that_changes_or_goes_missing_is_seen(value, share):
    rng, days = np.random.default_rng(12), []
    for d in range(4):
        gone = rng.random(400) < share * (d > 1)
        rows = [
            {
                "age": None if no else value(rng),
                "new": d or None,
                "up": rng.normal(d > 1),
            }
            for no in gone
        ]
        texts = [orjson.dumps(row).decode() for row in rows]
        days.append(
            replace(day_of_cases(rng, 500, DAY + d), instances=[*texts, *[None] * 100])
        )
    changes = list(feature_changes(days, lambda _: {}))
    assert list(feature_changes(days[:1], lambda _: {})) == []

    found = {(line["feature"], line["of"]): line["drifted"] for line in drift(changes)}

    assert found["age", "missing"]
    assert found["new", "missing"]
    assert found["up", "values"]
    unknown = [name["feature"] for name, change in changes if change is None]
    assert unknown == (["age"] if share >= 0.9 else [])  # fewer than 100 are left
    assert document(read_of(days, None), changes)["drift"]["not_compared"] == [
        {"feature": name, "of": "values"} for name in unknown
    ]
    assert not found.get(("age", "values"), False)


def test_what_is_missing_more_often_than_in_training_is_seen():
    """By the card of the newest version; a feature without a card is compared with earlier days."""
    rng = np.random.default_rng(13)
    row = orjson.dumps({"age": None, "income": None, "size": 1, "new": None}).decode()
    days = [
        replace(day_of_cases(rng, 200, DAY + d), instances=[row] * 200)
        for d in range(2)
    ]
    counts = {"age": [300, 0], "income": [0, 300], "size": [300, 0]}
    training = {name: np.array(pair) for name, pair in counts.items()}

    changes = feature_changes(days, {terms_of().version: training}.__getitem__)

    found = {
        line["feature"]: line["drifted"]
        for line in drift(list(changes))
        if line["of"] == "missing"
    }
    assert found == {"age": True, "income": False, "new": False}


@pytest.mark.parametrize("by", ["day", "week", "action", "version", "key"])
def test_a_report_over_selective_outcomes_has_no_amount_without_its_basis(by):
    rng, world = (
        np.random.default_rng(10),
        {"known_after": [0.0, 0.9], "epsilon": 0.1, "overrides": 0.05, "told": 0.1},
    )
    report = reported([day_of_cases(rng, 300, DAY + d, **world) for d in range(6)], by)
    found = dict(money(report))

    assert report["selective"]["is"]
    assert len(found) > 20
    for path, node in found.items():
        about_all = node["basis"].startswith(("all decisions", "the same"))
        assert about_all or "not an estimate for all decisions" in node["basis"], path
    assert not any(version["changed"] for version in report["priors"]["versions"])
    assert (
        "not estimates" in report["warnings"][0]
        or "no estimates" in report["warnings"][0]
    )


def test_selection_by_action_is_found_whatever_it_is_mixed_with():
    """One half tells the truth after the first action alone, the other after the second; or it is known after one
    action alone, which people take against the decision.
    """
    rng, even = np.random.default_rng(15), terms_of(((0.0, -1.0), (-1.0, 0.0)))

    def mixed(*versions):
        for d in range(4):
            for name in (0, 1):
                cases = day_of_cases(
                    rng,
                    600,
                    DAY + d,
                    known_after=[1.0 - name, float(name)],
                    terms=[versions[name]],
                )
                yield replace(
                    cases,
                    key=np.full(
                        600, name * (versions[0] == versions[1]), dtype=np.int32
                    ),
                )

    def overruled():
        for d in range(4):
            cases, treated = (
                day_of_cases(rng, 600, DAY + d, terms=[even]),
                rng.random(600) < 0.5,
            )
            truth, action = np.where(treated, (cases.truth, np.ones(600)), -1).astype(
                np.int32
            )
            yield replace(cases, truth=truth, action=action)

    for days in (mixed(even, even), mixed(even, replace(even, version=2)), overruled()):
        assert reported(list(days))["selective"]["is"]
    fair = [day_of_cases(rng, 600, DAY + d, known=0.6, overrides=0.2) for d in range(4)]
    assert not reported(fair)["selective"]["is"]


def test_the_verdict_of_one_day_is_about_that_day():
    rng = np.random.default_rng(19)
    one, two = (
        [day_of_cases(rng, 400, DAY + d) for d in range(days)] for days in (1, 2)
    )

    assert reported(one)["difference"]["day_inflation"] is None
    assert any("about that day" in warning for warning in reported(one)["warnings"])
    assert not any("about that day" in warning for warning in reported(two)["warnings"])


@pytest.mark.parametrize("known", [0, 1])
def test_truths_of_one_class_alone_are_no_verdict(known):
    """Of a calibrated stream; 40 of 40 reports said that the model promises too much, or too little."""
    rng = np.random.default_rng(14)
    days = [day_of_cases(rng, 500, DAY + d) for d in range(12)]
    days = [
        replace(day, truth=np.where(day.truth == known, day.truth, UNKNOWN))
        for day in days
    ]

    report = reported(days)

    assert report["verdict"] == "undecided"
    assert "none is" in report["difference"]["reason"]
