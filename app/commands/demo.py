"""`payoff demo`: a tour of the service over HTTP with scikit-learn's data, as an introduction to
benefit matrices.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import train_test_split

_START_SECONDS = 60


@dataclass(frozen=True)
class Case:
    """One example: real data, actions, and the benefit of each action for each class.

    `names` are the classes of the target codes 0, 1, … . `benefits` has a row per class in the
    model's order, which is alphabetical, and a column per action. `sought` is the class to retrieve
    among the test cases; `stages` has the prices of measurements by a word in their name: of the
    first one, and of each later one.
    """

    model: str
    title: str
    data: Any
    names: Sequence[str]
    actions: Sequence[str]
    benefits: Sequence[Sequence[float]]
    unit: str
    sought: str | None = None
    stages: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def classes(self) -> list[str]:
        return sorted(self.names)

    @property
    def stakes(self) -> dict[str, Any]:
        """The fields of a request that state the benefits."""
        return {"benefits": self.benefits, "actions": list(self.actions)}


def run(chosen: argparse.Namespace) -> int:
    """Start a service, or use that at `url`, run the tour, and serve until interrupted unless it is
    to `exit`.
    """
    with client_of(chosen.url) if chosen.url else service(chosen.port) as client:
        print(f"Payoff answers at {client.base_url}\n")
        for case in cases():
            show(client, case)
        if not (chosen.exit or chosen.url):
            print(
                f"The console is at {client.base_url}, the documentation at /docs.",
                end=" ",
            )
            print("Ctrl-C ends both.")
            try:
                signal.pause()
            except KeyboardInterrupt:
                print("\nbye")
    return 0


def client_of(url: str) -> httpx.Client:
    key = os.environ.get("PAYOFF_ADMIN_KEY")
    return httpx.Client(
        base_url=url, headers={"X-API-Key": key} if key else {}, timeout=60
    )


@contextmanager
def service(port: int) -> Iterator[httpx.Client]:
    """The service in a process of its own, once it is ready."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise SystemExit(
                f"port {port} is in use; choose another:"
                " payoff demo --port 8001, make demo PORT=8001"
            )
    environment = {
        "PAYOFF_ACCESS_LOG": "false",
        "PAYOFF_LOG_LEVEL": "warning",
        **os.environ,
    }
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port)]
    # Without this, the service would go on after the demo is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    server = subprocess.Popen(command, env=environment)  # noqa: S603 - our own command
    try:
        with client_of(f"http://127.0.0.1:{port}") as client:
            deadline = time.monotonic() + _START_SECONDS
            ready = False
            while not ready:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(
                        "the service did not become ready; see its last log lines"
                    )
                time.sleep(0.05)
                with suppress(httpx.TransportError):
                    ready = client.get("/health/ready").is_success
            yield client
    finally:
        server.terminate()
        server.wait()


def post(client: httpx.Client, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return answered(client.post(path, json=body))


def answered(response: httpx.Response) -> dict[str, Any]:
    """The JSON of a response; SystemExit where it is an error."""
    if response.is_error:
        raise SystemExit(
            f"{response.url.path} answered {response.status_code}: {response.text}"
        )
    return response.json()


def trained(client: httpx.Client, order: Mapping[str, Any]) -> dict[str, Any]:
    """The job of a request to train, once it has succeeded."""
    job = post(client, "/train", order)
    while job["status"] in ("queued", "running"):
        job = answered(client.get(f"/jobs/{job['id']}", headers={"Prefer": "wait=30"}))
    if job["status"] != "succeeded":
        raise SystemExit(f"the training job ended as {job['status']}: {job['error']}")
    return job


def cases() -> list[Case]:
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
        ),
        Case(
            "wine",
            "Which of three growers does this wine come from?"
            " 178 real wines, 13 measurements each.",
            load_wine(),
            ("grower A", "grower B", "grower C"),
            ("label as A", "label as B", "label as C", "send to the laboratory"),
            ((10, -30, -30, 4), (-10, 5, -10, 4), (-80, -80, 20, 4)),
            "euros per bottle",
        ),
    ]


def show(client: httpx.Client, case: Case) -> None:
    """Train a model of the case, decide its test cases, and print what each request returns."""
    names = [case.names[code] for code in case.data.target]
    train, test, known, truth = train_test_split(
        case.data.data, names, test_size=0.4, random_state=0, stratify=case.data.target
    )
    print(f"== {case.title}")
    _show_matrix(case)
    data = {
        "features": list(map(str, case.data.feature_names)),
        "rows": train.tolist(),
        "labels": known,
    }
    job = trained(
        client,
        {
            "model": case.model,
            "learner": {"kind": "logistic"},
            "data": data,
            "holdout": 0.25,
        },
    )
    model = f"{case.model}:{job['model']['version']}"
    print(f"POST /train      {len(train)} rows; the other {len(test)} are test cases")
    accuracy = job["metrics"]["accuracy"]
    print(
        f"                 {model} published; accuracy {accuracy:.3f} on rows not seen"
    )
    question = {"model": model, "instances": test.tolist()}
    priced = post(client, "/predict", question | case.stakes)
    blind = post(client, "/predict", question | {"rule": "most_probable"})
    _show_decisions(priced, truth)
    _show_earnings(case, priced, blind, truth)
    if case.sought is not None:
        _show_sets(client, question, case.sought, truth)
    if case.stages:
        _ask_step_by_step(client, case, data, test, truth)
    print()


def _show_matrix(case: Case) -> None:
    print(
        f"   What each action is worth, in {case.unit}, for each truth (the benefit matrix):"
    )
    for name, row in zip(case.classes, case.benefits, strict=True):
        cells = ", ".join(
            f"{action} {value:+g}"
            for action, value in zip(case.actions, row, strict=True)
        )
        print(f"      {name:<12}{cells}")


def _show_decisions(answer: dict[str, Any], truth: Sequence[str]) -> None:
    print(
        "POST /predict    decisions for the test cases, with their expected benefits:"
    )
    doubt = np.array(answer["probabilities"]).max(axis=1)
    for i in (*np.argsort(-doubt)[:1], *np.argsort(doubt)[:3]):
        chances = ", ".join(
            map("{} {:.0%}".format, answer["classes"], answer["probabilities"][i])
        )
        worth = max(answer["expected_benefits"][i])
        decision = answer["decisions"][i]
        print(
            f"      {decision:<24} {worth:+8.1f} expected   ({chances}; in truth {truth[i]})"
        )


def _show_earnings(
    case: Case, priced: dict[str, Any], blind: dict[str, Any], truth: Sequence[str]
) -> None:
    """Print the benefit of the decisions on the test cases."""
    B = np.array(case.benefits, dtype=float)
    codes = np.array([case.classes.index(name) for name in truth])
    decided = np.array([case.actions.index(name) for name in priced["decisions"]])
    believed = np.array([case.classes.index(name) for name in blind["decisions"]])
    obvious = B.argmax(
        axis=1
    )  # the best action if the most probable class were certain
    earned = B[codes, decided].mean()
    blindly = B[codes, obvious[believed]].mean()
    best = B.max(axis=1)[codes].mean()
    mu = earned / best
    print(f"   Earned on {len(truth)} test cases, in {case.unit}:")
    print(
        f"      {earned:8.2f}   deciding by expected benefit   (mu = {mu:.3f}; 1 is perfect)"
    )
    print(f"      {blindly:8.2f}   acting on the most probable class, cost-blind")
    print(f"      {best:8.2f}   if every class were known")


def _show_sets(
    client: httpx.Client, question: dict[str, Any], sought: str, truth: Sequence[str]
) -> None:
    """Print the best set for a review in which a miss is worse than a false alarm."""
    loss = {
        "setting": "binary",
        "positive": sought,
        "loss": {"name": "f_beta", "beta": 3},
    }
    best_set = post(client, "/retrieve", question | loss)["sets"][0]
    actual = np.array(truth) == sought
    print(
        f"POST /retrieve   which test cases to review, so that few that are {sought} are missed:"
    )
    hits = actual[best_set["selected"]].sum()
    f3 = 1 - best_set["expected_loss"]
    print(
        f"   {best_set['k']} cases, with {hits} of the {actual.sum()}: the set with the largest"
    )
    print(
        f"   expected F3 ({f3:.3f}), which counts recall three times as much as precision."
    )


def _ask_step_by_step(
    client: httpx.Client,
    case: Case,
    data: Mapping[str, Any],
    test: np.ndarray,
    truth: Sequence[str],
) -> None:
    """Train a forest with prices of measurements, and print how much `/acquire` asks for, and what
    that earns.
    """
    costs = [
        {"feature": name, "cost": first, "group": stage, "discounted_cost": later}
        for name in data["features"]
        for stage, (first, later) in case.stages.items()
        if stage in name
    ]
    model = f"{case.model}-steps"
    order = {
        "model": model,
        "learner": {"kind": "budget_forest"},
        "data": data,
        "feature_costs": costs,
    }
    trained(client, order)
    stakes = {"model": model, **case.stakes}
    report = post(
        client,
        "/acquire/simulate",
        stakes | {"rows": test.tolist(), "labels": list(truth)},
    )
    print(
        "POST /acquire    each measurement has a (made-up) price,"
        " and a forest asks for them one by one:"
    )
    ways = {
        "measuring everything": report["everything"],
        "measuring nothing": report["nothing"],
    }
    ways["asking while it is worth the price"] = report["budgets"][-1]["worth_stopping"]
    for words, way in ways.items():
        figures = f"{way['questions']:4.1f} measurements for {way['cost']:5.2f}"
        print(f"      {way['net_benefit']:8.2f}   {words}: {figures}")
