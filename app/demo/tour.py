"""A tour of the service over HTTP with scikit-learn's data, as an introduction to benefit matrices."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import train_test_split

from app.demo import days, next_steps
from app.demo.service import client_of, post, service, wait


@dataclass(frozen=True)
class Case:
    """One example: real data, actions, and the benefit of each action for each class."""

    model: str
    title: str
    data: Any
    names: Sequence[str]
    """The classes of the target codes 0, 1, …"""
    actions: Sequence[str]
    benefits: Sequence[Sequence[float]]
    """A row per class in the model's order, which is alphabetical; a column per action."""
    unit: str
    sought: str | None = None
    """The class to retrieve among the test cases, or None."""
    stages: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The prices of measurements by a word in their name: of the first one, and of each later one."""
    days: bool = False
    """Whether days of use are simulated."""

    @property
    def classes(self) -> list[str]:
        return sorted(self.names)

    @property
    def stakes(self) -> dict[str, Any]:
        """What a request says about benefits."""
        return {"benefits": self.benefits, "actions": list(self.actions)}


def run(*, port: int, stay: bool, url: str | None = None) -> int:
    """Start the service, run the tour, and serve until interrupted if `stay`; returns the exit code.

    With `url` use the service at that URL.
    """
    with client_of(url) if url else service(port) as client:
        print(f"Payoff answers at {client.base_url}\n")
        cases = _cases()
        for case in cases:
            _tell(client, case)
        if stay or url:
            next_steps.show(client, cases[-1].model, cases[-1].stakes, cases[-1].data.data[0].tolist())
        if stay and not url:
            print("Serving until you press Ctrl-C.")
            try:
                while True:
                    time.sleep(3600)
            except KeyboardInterrupt:
                print("\nbye")
    return 0


def _cases() -> list[Case]:
    return [
        Case(
            "tumour",
            "Is this lump malignant? 569 real biopsies, 30 measurements each.",
            load_breast_cancer(),
            ("malignant", "benign"),
            ("operate", "send home", "second opinion"),
            ((-40, 0, -10), (100, -500, 60)),
            "points per patient",
            sought="malignant",
            stages={"mean": (1, 0.2), "error": (2, 0.2), "worst": (4, 0.2)},
            days=True,
        ),
        Case(
            "wine",
            "Which of three growers does this wine come from? 178 real wines, 13 measurements each.",
            load_wine(),
            ("grower A", "grower B", "grower C"),
            ("label as A", "label as B", "label as C", "send to the laboratory"),
            ((10, -30, -30, 4), (-10, 5, -10, 4), (-80, -80, 20, 4)),
            "euros per bottle",
        ),
    ]


def _tell(client: httpx.Client, case: Case) -> None:
    names = [case.names[code] for code in case.data.target]
    train, test, known, truth = train_test_split(
        case.data.data, names, test_size=0.4, random_state=0, stratify=case.data.target
    )
    print(f"== {case.title}")
    _show_matrix(case)
    uploaded = post(
        client,
        "/datasets",
        files={"file": (f"{case.model}.csv", _table(case.data.feature_names, train, known), "text/csv")},
        data={"label": "truth", "name": case.model},
    )
    print(f"POST /datasets   {uploaded['rows']} rows kept as {uploaded['id']}; the other {len(test)} are test cases")
    order = {"model": case.model, "learner": {"kind": "logistic"}, "data": {"dataset": uploaded["id"]}, "holdout": 0.25}
    job = wait(client, post(client, "/train", json=order))
    version = job["model"]["version"]
    print(
        f"POST /train      {case.model}:{version} published; accuracy {job['metrics']['accuracy']:.3f} on rows not seen"
    )
    question = {"model": f"{case.model}:{version}", "instances": test.tolist()}
    priced = post(client, "/predict", json=question | case.stakes)
    blind = post(client, "/predict", json=question | {"rule": "most_probable"})
    _show_decisions(priced, truth)
    _show_earnings(case, priced, blind, truth)
    if case.sought is not None:
        _show_sets(client, question, case.sought, truth)
    if case.stages:
        _ask_step_by_step(client, case, uploaded["id"], test, truth)
    if case.days:
        asked = {"model": f"{case.model}:{version}", **case.stakes}
        days.tell(client, asked, case.data.feature_names, test, truth, time.time())
    print()


def _show_matrix(case: Case) -> None:
    print(f"   What each action is worth, in {case.unit}, for each truth (the benefit matrix):")
    width = max(map(len, case.classes)) + 8
    cells = [max(len(action), 6) for action in case.actions]
    print(" " * width + "  ".join(f"{action:>{cell}}" for action, cell in zip(case.actions, cells, strict=True)))
    for name, row in zip(case.classes, case.benefits, strict=True):
        values = "  ".join(f"{value:>+{cell}g}" for value, cell in zip(row, cells, strict=True))
        print(f"      {name:<{width - 6}}{values}")


def _show_decisions(answer: dict[str, Any], truth: Sequence[str]) -> None:
    print("POST /predict    decisions for the test cases, with their expected benefits:")
    doubt = np.array(answer["probabilities"]).max(axis=1)
    for i in (*np.argsort(-doubt)[:1], *np.argsort(doubt)[:3]):
        chances = ", ".join(
            f"{name} {p:.0%}" for name, p in zip(answer["classes"], answer["probabilities"][i], strict=True)
        )
        worth = max(answer["expected_benefits"][i])
        print(f"      {answer['decisions'][i]:<24} {worth:+8.1f} expected   ({chances}; in truth {truth[i]})")


def _show_earnings(case: Case, priced: dict[str, Any], blind: dict[str, Any], truth: Sequence[str]) -> None:
    """Print the benefit of the decisions on the test cases."""
    B = np.array(case.benefits, dtype=float)
    codes = np.array([case.classes.index(name) for name in truth])
    decided = np.array([case.actions.index(name) for name in priced["decisions"]])
    believed = np.array([case.classes.index(name) for name in blind["decisions"]])
    obvious = B.argmax(axis=1)  # the best action if the most probable class were certain
    earned, blindly, best = B[codes, decided].mean(), B[codes, obvious[believed]].mean(), B.max(axis=1)[codes].mean()
    print(f"   Earned on {len(truth)} test cases, in {case.unit}:")
    print(f"      {earned:8.2f}   deciding by expected benefit   (mu = {earned / best:.3f}; 1 is perfect)")
    print(f"      {blindly:8.2f}   acting on the most probable class, cost-blind")
    print(f"      {best:8.2f}   if every class were known")


def _show_sets(client: httpx.Client, question: dict[str, Any], sought: str, truth: Sequence[str]) -> None:
    """Print the best set for a review in which a miss is worse than a false alarm, and the set above 1/2."""
    beta, actual = 3, np.array(truth) == sought
    asked = question | {"setting": "binary", "positive": sought, "loss": {"name": "f_beta", "beta": beta}}
    print(f"POST /retrieve   which test cases to review, so that few that are {sought} are missed:")
    print(f"   Measured by F{beta}; 1 if exactly these are found; recall counts {beta} times as much as precision.")
    for method, what in (
        ("expected_loss", "the set with the largest expected"),
        ("half", "those above 1/2, regardless of"),
    ):
        found = post(client, "/retrieve", json=asked | {"method": method})["sets"][0]
        hits = int(actual[found["selected"]].sum())
        real = (1 + beta**2) * hits / (beta**2 * actual.sum() + found["k"])
        scores = f"F{beta} ({1 - found['expected_loss']:.3f}; in truth {real:.3f})"
        print(f"   {found['k']:5} cases, with {hits} of the {actual.sum()}   {what} {scores}")


def _ask_step_by_step(
    client: httpx.Client, case: Case, dataset: str, test: np.ndarray, truth: Sequence[str]
) -> None:  # fmt: skip
    """Train a forest with prices of measurements, and print what `/acquire` asks for until more is not worth it."""
    names = list(map(str, case.data.feature_names))
    costs = [
        {"feature": name, "cost": first, "group": stage, "discounted_cost": later}
        for name in names
        for stage, (first, later) in case.stages.items()
        if stage in name
    ]
    model = f"{case.model}-steps"
    order = {"model": model, "learner": {"kind": "budget_forest"}, "data": {"dataset": dataset}, "feature_costs": costs}
    wait(client, post(client, "/train", json=order))
    stakes = {"model": model, **case.stakes}
    report = post(client, "/acquire/simulate", json=stakes | {"rows": test.tolist(), "labels": list(truth)})
    asked = report["budgets"][-1]["worth_stopping"]
    print("POST /acquire    each measurement has a (made-up) price, and a forest asks for them one by one:")
    for words, way in (
        ("measuring everything", report["everything"]),
        ("measuring nothing", report["nothing"]),
        ("asking while it is worth the price", asked),
    ):
        figures = f"{way['questions']:4.1f} measurements for {way['cost']:5.2f}"
        print(f"      {way['net_benefit']:8.2f}   {words}: {figures}")
    print("   Two patients:")
    for name in case.classes:
        i = max(place for place, other in enumerate(truth) if other == name)
        _follow(client, stakes, dict(zip(names, test[i].tolist(), strict=True)), name)


def _follow(client: httpx.Client, stakes: dict[str, Any], patient: Mapping[str, float], truth: str) -> None:
    known: dict[str, float] = {}
    while (now := post(client, "/acquire", json=stakes | {"known": known}))["status"] == "acquire":
        name, cost = now["next"]["feature"], now["next"]["cost"]
        known[name] = patient[name]
        print(f"      ask for {name:<24} {cost:5.2f}   it is {patient[name]:.4g}")
    chances = ", ".join(f"{name} {p:.0%}" for name, p in now["probabilities"].items())
    why = "more is not worth it" if now["reason"] == "not_worth_it" else now["reason"].replace("_", " ")
    print(f"      {now['decision']}: {why}   ({chances}; in truth {truth})")


def _table(names: Sequence[str], X: np.ndarray, truth: Sequence[str]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*names, "truth"])
    writer.writerows([*row, name] for row, name in zip(X.tolist(), truth, strict=True))
    return text.getvalue().encode()
