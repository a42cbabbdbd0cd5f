"""One small model of every kind, and valid requests of every route about them."""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from fastapi import FastAPI

from app.usecases import train as training
from tests.reference.losses import PLAIN
from tests.servers.direct import Answer, ask
from tests.servers.fuzzing import ARROW, NPY, Sent, content_of, described

_ROWS = 48
_FOUR = ["age", "pulse", "chol", "thal"]
_MATRICES = {2: [[0, -1], [-10, 5]], 3: [[0, -1, -2], [-10, 5, 0], [-8, 1, 4]]}
_LOSSES: tuple[dict[str, Any], ...] = (
    {"name": "f_beta", "beta": 1}, {"name": "fractional_linear", "c": [1, -1, 0, 0], "d": [1, 0, 0, 0]},
    *(loss.as_json() for loss in PLAIN),
)  # fmt: skip
_PRICES = [
    {"feature": "age", "cost": 1.5},
    {"feature": "pulse", "cost": 2, "group": "lab", "discounted_cost": 1},
    {"feature": "chol", "cost": 3.25, "group": "lab", "discounted_cost": 0},
    {"feature": "thal", "cost": 4},
]


@dataclass(frozen=True)
class Animal:
    """A model: how it is trained, and what requests about it need to know."""

    name: str
    learner: dict[str, Any]
    target: str
    """`two` or `three` classes, `integers` (three classes), `number` or `several` labels."""
    words: bool = False
    """Whether a feature is categorical."""
    holdout: float = 0.3
    stepwise: bool = False

    @property
    def classes(self) -> list[int | str]:
        return {"two": ["healthy", "ill"], "integers": [0, 1, 7], "number": [], "several": ["red", "round"]}.get(
            self.target, ["healthy", "ill", "worse"]
        )

    def data(self) -> dict[str, Any]:
        """Features, rows and labels that overlap."""
        chance = np.random.default_rng(sum(map(ord, self.name)))
        code = np.arange(_ROWS) % max(len(self.classes), 2)
        X = (chance.normal([50, 70, 5, 0], [10, 8, 1, 2], (_ROWS, 4)) + 4 * code[:, None]).round(1)
        rows = X.tolist()
        rows[3][1] = None
        if self.words:
            for row in rows:
                row[3] = "mild" if row[3] < 3 else "strong"
        return {"features": _FOUR, "rows": rows, "labels": self._labels(code, X, chance)}

    def _labels(self, code: np.ndarray, X: np.ndarray, chance: np.random.Generator) -> list[Any]:
        if self.target == "number":
            return (X[:, 0] / 7 + chance.normal(size=_ROWS)).round(2).tolist()
        if self.target == "several":
            return [
                ["red"] * int(c) + ["round"] * int(d) for c, d in zip(code, chance.random(_ROWS) < 0.5, strict=True)
            ]
        return [self.classes[c] for c in code]

    def order(self) -> dict[str, Any]:
        """The body of `POST /train`."""
        order = {"model": self.name, "learner": self.learner, "data": self.data(), "holdout": self.holdout, "seed": 1}
        if self.learner["kind"] in ("benefit_logistic", "hierarchical_logistic"):
            order["benefits"] = _MATRICES[len(self.classes)]
        if self.stepwise:
            order["feature_costs"] = _PRICES
        return order


ANIMALS = (
    Animal("plain", {"kind": "logistic", "C": 1.0, "calibration": "auto"}, "two", words=True),
    Animal("numbered", {"kind": "logistic", "calibration": "none"}, "integers"),
    Animal("unheld", {"kind": "logistic", "calibration": "none"}, "two", holdout=0),
    Animal("weighed", {"kind": "benefit_logistic", "one_vs_rest": "normalised"}, "three"),
    Animal("bayes", {"kind": "cost_naive_bayes", "alpha": 1.0, "bins": 4}, "two", words=True),
    Animal("boosted", {"kind": "gradient_boosting", "max_iter": 3, "learning_rate": 0.1}, "three", words=True),
    Animal("forest", {"kind": "random_forest", "n_estimators": 5}, "two", words=True, stepwise=True),
    Animal("curved", {"kind": "kernel_logistic", "gamma": 0.1, "majority": "healthy"}, "two"),
    Animal("staged", {"kind": "hierarchical_logistic", "majority": "healthy"}, "three"),
    Animal("labels", {"kind": "multilabel_logistic", "chain": True}, "several", words=True),
    Animal("numlabels", {"kind": "multilabel_logistic", "calibration": "none"}, "several"),
    Animal("forestlabels", {"kind": "multilabel_forest", "n_estimators": 5}, "several", words=True),
    Animal("frugal", {"kind": "budget_forest", "budget": 6, "n_estimators": 5}, "two", stepwise=True),
    Animal("tree", {"kind": "cost_tree", "depth": 2, "lambda": 0.01}, "two", words=True, stepwise=True),
    Animal("heights", {"kind": "cost_tree", "task": "regression", "depth": 2}, "number", stepwise=True),
)


async def asked(app: FastAPI, sent: Sent) -> Answer:
    return await ask(app, sent, content_of(sent))


async def populate(app: FastAPI) -> None:
    """Train all of it, and something to delete."""
    orders = [animal.order() for animal in ANIMALS]
    orders += [{**ANIMALS[2].order(), "model": name} for name in ("spare", "spare", "gone")]
    await train(app, orders)
    await asked(app, Sent("POST", "/train", orders[0]))  # is not run
    for number in (1, 2):
        await asked(app, Sent("PUT", "/models/plain/aliases/live", {"version": 1}))
        await asked(app, Sent("PUT", f"/models/spare/aliases/old{number}", {"version": number}))


async def train(app: FastAPI, orders: Iterable[dict[str, Any]]) -> None:
    """Run the orders in this process: one of its own for each job takes seconds."""
    for order in orders:
        answer = await asked(app, Sent("POST", "/train", order))
        assert answer.status == 202, answer
    ports = app.state.ports
    while job := ports.queue.claim("zoo"):
        await asyncio.to_thread(training.run, ports, job)
    ports.registry.refresh()


def requests(datasets: Mapping[str, str], job: str, queued: str) -> list[Sent]:
    """Valid requests of every route; uploads are apart."""
    found = [sent for animal in ANIMALS for sent in about(animal)]
    found += [*_sets(), *_training(datasets), *_service(datasets, job, queued)]
    return found


def examples(document: Mapping[str, Any], animals: Iterable[Animal]) -> list[Sent]:
    """Valid requests for the operations of the OpenAPI document, and about models that exist."""
    return [*described(document), *(sent for animal in animals for sent in about(animal))]


def about(animal: Animal) -> Iterator[Sent]:
    """Requests about one model."""
    rows = animal.data()["rows"][1:3]
    objects = [dict(zip(_FOUR, row, strict=True)) for row in rows]
    yield from _predictions(animal, rows, objects)
    yield from _retrievals(animal, rows, objects)
    if animal.stepwise:
        yield from _questions(animal, rows, objects)
    if animal.holdout and animal.target not in ("number", "several"):
        priors = {str(name): 1 / len(animal.classes) for name in animal.classes}
        body = {"benefits": _MATRICES[len(animal.classes)], "priors": priors, "points": 3}
        yield Sent("POST", f"/models/{animal.name}/benefit", body)
        yield Sent("POST", f"/models/{animal.name}:1/benefit", {"benefits": body["benefits"]})


def _predictions(animal: Animal, rows: list[Any], objects: list[Any]) -> Iterator[Sent]:
    asked = {"model": animal.name, "instances": rows}
    if animal.target == "several":
        return
    if animal.target == "number":
        yield Sent("POST", "/predict", asked)
        yield Sent("POST", "/predict", {**asked, "instances": objects})
        yield from _columns({"model": animal.name}, rows, words=animal.words)
        return
    matrix = _MATRICES[len(animal.classes)]
    priors = {str(name): 1 / len(animal.classes) for name in animal.classes}
    costs = {"majority": animal.classes[0], "C_DD": 1, "C_HD": 2.5, "C_DH": 10}
    for more in (
        {"benefits": matrix},
        {"benefits": [matrix] * 2, "instances": objects},
        {"benefits": [row[:2] for row in matrix], "actions": ["wait", "treat"], "priors": priors},
        {"rule": "most_probable", "priors": priors, "instances": objects},
        {"rule": "beta_delta", "costs": costs},
        {"rule": "hierarchical", "costs": {key: cost for key, cost in costs.items() if key != "C_DD"}},
    ):
        yield Sent("POST", "/predict", {**asked, **more})
    if animal.target == "two":
        yield Sent("POST", "/predict", {**asked, "rule": "threshold", "threshold": 0.3, "actions": ["a", "b"]})
        yield Sent("POST", "/predict", {**asked, "rule": "threshold", "threshold": "posterior", "benefits": matrix})
        if animal.holdout:
            more = {"rule": "threshold", "threshold": "holdout", "benefits": matrix, "priors": priors}
            yield Sent("POST", "/predict", {**asked, **more})
    query = {"model": animal.name, "benefits": json.dumps(matrix), "priors": json.dumps(priors)}
    yield from _columns(query, rows, words=animal.words)


def _columns(query: dict[str, str], rows: list[Any], *, words: bool) -> Iterator[Sent]:
    """The rows as an array and as a table."""
    yield from _arrays("/predict", query, rows, words=words)
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(_FOUR, map(pa.array, columns), strict=True)))
    yield Sent("POST", "/predict", _arrow(table), query, {"Content-Type": ARROW, "Accept": ARROW})


def _arrays(path: str, query: dict[str, str], rows: list[Any], *, words: bool) -> Iterator[Sent]:
    """The rows as an array, which has no words."""
    if not words:
        X = np.array(rows, dtype=np.float64)
        yield Sent("POST", path, _npy(X), query, {"Content-Type": NPY, "Accept": NPY})
        yield Sent("POST", path, _npy(X), query, {"Content-Type": NPY})


def _retrievals(animal: Animal, rows: list[Any], objects: list[Any]) -> Iterator[Sent]:
    if animal.target == "number":
        return
    chance = random.Random(animal.name)
    asked = {"model": animal.name, "instances": objects}
    setting = {"two": "binary", "several": "multilabel"}.get(animal.target, "multiclass")
    bounds = {"empty": 1, "k_min": 1, "k_max": 2, "curve": True, "min_recall": 0.1, "min_precision": 0.1}
    loss = chance.choice(_LOSSES[:4])
    yield Sent("POST", "/retrieve", {**asked, "setting": setting, "loss": loss, **bounds})
    more: dict[str, Any] = {"loss": chance.choice(_LOSSES[:6])}
    if setting == "binary":
        more |= {"positive": "ill"}
    yield Sent("POST", "/retrieve", {**asked, "setting": setting, "method": "half", **more})
    if animal.holdout:
        yield Sent("POST", "/retrieve", {**asked, "setting": setting, "method": "tuned_threshold", **more})
    query = {"model": animal.name, "setting": setting, "loss": json.dumps(loss)}
    yield from _arrays("/retrieve", query, rows, words=animal.words)


def _questions(animal: Animal, rows: list[Any], objects: list[Any]) -> Iterator[Sent]:
    known = {"age": rows[0][0], "pulse": None}
    asked: dict[str, Any] = {"model": animal.name}
    yield Sent("POST", "/acquire", {**asked, "known": known, "budget": 5.5, "unavailable": ["thal"]})
    yield Sent("POST", "/acquire", {**asked, "instances": [{}, objects[0]], "feature_costs": _PRICES})
    simulated = {**asked, "rows": objects, "labels": animal.data()["labels"][1:3], "budgets": [0, 2.5]}
    if animal.target == "number":
        yield Sent("POST", "/acquire/simulate", simulated)
        return
    stakes = {"benefits": _MATRICES[2], "actions": ["wait", "treat"], "feature_costs": {"age": 0.5, "thal": 0}}
    yield Sent("POST", "/acquire", {**asked, "known": known, **stakes})
    yield Sent("POST", "/acquire", {**asked, "instances": [known], "budget": 2, **stakes})
    yield Sent("POST", "/acquire/simulate", {**simulated, "rows": rows, **stakes})


def _sets() -> Iterator[Sent]:
    """Retrieval from probabilities."""
    lists = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]
    for number, loss in enumerate(_LOSSES):
        auc = {"k_min": 1, "k_max": 2} if loss["name"] == "auc" else {}
        one = {"probabilities": [0.9, 0.5, 0.1, 0.0], "setting": "binary", "loss": loss, "curve": True, **auc}
        yield Sent("POST", "/retrieve", one)
        setting = ("multilabel", "multiclass")[number % 2]
        yield Sent("POST", "/retrieve", {"probabilities": lists, "setting": setting, "loss": loss, **auc, "empty": 1})
    long = np.linspace(0.001, 0.999, 50)
    for loss in _LOSSES:
        query = {"setting": "binary", "loss": json.dumps(loss), "k_min": "1", "k_max": "40", "curve": "true"}
        yield Sent("POST", "/retrieve", _npy(long), query, {"Content-Type": NPY})
    query = {"setting": "multilabel", "loss": '{"name":"jaccard"}', "min_recall": "0.2"}
    yield Sent("POST", "/retrieve", _npy(np.array(lists)), query, {"Content-Type": NPY})


def _training(datasets: Mapping[str, str]) -> Iterator[Sent]:
    for animal in ANIMALS:
        order = animal.order()
        few = {key: order["data"][key][:12] for key in ("rows", "labels")}
        few["rows"] = [row[:2] for row in few["rows"][:6]]
        few["labels"] = few["labels"][:6]
        costs = {"feature_costs": [_PRICES[0], {"feature": "pulse", "cost": 2}]} if animal.stepwise else {}
        inline = {**order, "data": {"features": _FOUR[:2], **few}, **costs}
        yield Sent("POST", "/train", inline, headers={"Prefer": "wait=0"})
        if animal.name in datasets:
            stored = {**order, "data": {"dataset": datasets[animal.name]}}
            yield Sent("POST", "/train", stored, headers={"Idempotency-Key": animal.name})
    for animal in ANIMALS:
        if animal.name in datasets and animal.target in ("two", "three", "integers"):
            learners = [animal.learner, {"kind": "logistic", "C": 0.5}]
            body = {"dataset": datasets[animal.name], "learners": learners, "benefits": _MATRICES[len(animal.classes)]}
            yield Sent("POST", "/compare", {**body, "folds": 3, "seed": 0}, headers={"Prefer": "wait=0"})


_CSV = b"age,pain,condition\n63,typical,ill\n41,none,healthy\n57,typical,ill\n38,none,healthy\n50,,ill\n44,none,ill\n"

_PART = b"--b\r\nContent-Disposition: form-data; "
_FORM = b"".join(
    (
        _PART,
        b'name="label"\r\n\r\ncondition\r\n',
        _PART,
        b'name="file"; filename="t.csv"\r\n\r\n',
        _CSV,
        b"\r\n--b--\r\n",
    )
)


def _service(datasets: Mapping[str, str], job: str, queued: str) -> Iterator[Sent]:
    for path in ("/models", "/datasets", "/jobs", "/audit"):
        yield Sent("GET", path, query={"page_size": "2"})
    yield Sent("GET", "/jobs", query={"status": "succeeded", "model": "plain"})
    yield Sent("GET", f"/jobs/{job}", headers={"Prefer": "wait=0"})
    yield Sent("GET", f"/jobs/{job}/events")
    yield Sent("DELETE", f"/jobs/{queued}")
    yield Sent("GET", f"/datasets/{datasets['plain']}")
    yield Sent("DELETE", f"/datasets/{datasets['gone']}")
    for animal in (ANIMALS[0], ANIMALS[-2]):
        yield Sent("GET", f"/models/{animal.name}")
        yield Sent("GET", f"/models/{animal.name}/versions/1")
    yield Sent("GET", "/models/plain/versions/1/artifact")
    yield Sent("PUT", "/models/plain/aliases/live", {"version": 1})
    yield Sent("DELETE", "/models/spare/aliases/old1")
    yield Sent("DELETE", "/models/spare/versions/1")
    yield Sent("DELETE", "/models/gone")
    for path in ("/health/live", "/health/ready", "/metrics", "/openapi.json"):
        yield Sent("GET", path)


def uploads() -> list[Sent]:
    """Files that become data sets: each is read in a process of its own, which takes a second."""
    return [
        Sent("POST", "/datasets", _CSV, {"label": "condition", "name": "small"}, {"Content-Type": "text/csv"}),
        Sent("POST", "/datasets", _FORM, headers={"Content-Type": "multipart/form-data; boundary=b"}),
    ]


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


async def stored(app: FastAPI) -> tuple[dict[str, str], str, str]:
    """The data set of each model and of one more that nothing needs, a job that has ended, and one that is queued."""
    cards = {a.name: await asked(app, Sent("GET", f"/models/{a.name}/versions/1")) for a in ANIMALS}
    datasets = {name: json.loads(card.body)["data"]["dataset"] for name, card in cards.items()}
    upload = Sent("POST", "/datasets", _CSV, {"label": "condition", "name": "gone"}, {"Content-Type": "text/csv"})
    datasets["gone"] = json.loads((await asked(app, upload)).body)["id"]
    jobs = json.loads((await asked(app, Sent("GET", "/jobs", query={"page_size": "2"}))).body)["jobs"]
    return datasets, jobs[1]["id"], jobs[0]["id"]
