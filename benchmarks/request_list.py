"""The list of `recorded_requests.py`: requests of a fixed seed, made without the service and its code.

All routes and formats; two requests in five have something wrong about them. What changes anything is about models of
its own, so that a request with another effect in another version of the service does not change all answers after it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

JSON, NPY, CSV, SVG = "application/json", "application/x-npy", "text/csv", "image/svg+xml"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
FORM, BINARY, LENGTH = "multipart/form-data", "application/octet-stream", "Inference-Header-Content-Length"
DAYS = [f"2026-09-{day:02d}" for day in range(1, 29)]
FEATURES, PAINS = ["age", "pressure", "pain"], ["none", "mild", "typical"]
LABELS = {
    "two": ["healthy", "ill"],
    "three": ["green", "amber", "red"],
    "many": ["rash", "cough", "fever"],
    "number": [],
}
LARGE = 2**20  # bytes of a body that may be refused before it is read
KEY_NAMES = ("deciding", "training", "both", "some", "few")
JOBS_EVERY = 200  # requests: a job takes as long as a hundred of them
# What defaults would say is said where it is known to change.
MODELS = """
ward   two    {"kind": "logistic", "C": 1.0, "calibration": "sigmoid"}
wood   two    {"kind": "random_forest", "n_estimators": 12, "min_samples_leaf": 3, "calibration": "none"}
boost  two    {"kind": "gradient_boosting", "max_iter": 15, "calibration": "none"}
naive  two    {"kind": "cost_naive_bayes", "bins": 5, "calibration": "isotonic"}
kernel two    {"kind": "kernel_logistic", "gamma": 0.5}
blunt  two    {"kind": "benefit_logistic", "calibration": "none"}
chain  two    {"kind": "forest_chain", "n_estimators": 8, "min_samples_leaf": 3}
budget two    {"kind": "budget_forest", "n_estimators": 8, "max_depth": 5}
tree   three  {"kind": "cost_tree", "depth": 2, "lambda": 0.01}
three  three  {"kind": "logistic", "C": 1.0, "calibration": "none"}
levels three  {"kind": "hierarchical_logistic", "majority": "green"}
price  number {"kind": "cost_tree", "task": "regression", "depth": 2, "lambda": 0.01}
labels many   {"kind": "multilabel_logistic", "calibration": "none"}
sets   many   {"kind": "multilabel_forest", "n_estimators": 10, "calibration": "none"}
"""
ROUTES = """
340 POST /predict
160 POST /retrieve
100 POST /acquire
 40 POST /v2/models/{ref}/infer
 40 POST /v2/models/{name}/versions/{version}/infer
 20 POST /benefit
 25 POST /models/{ref}/benefit
 10 POST /acquire/simulate
 50 POST /outcomes
 20 POST /datasets
  8 PUT /models/{name}/aliases/{alias}
 12 PUT /models/{name}/matrices/{matrix}
  6 PUT /models/{name}/recording
"""
OTHERS = """
GET / /docs /openapi.json /console/ /metrics /audit /access /nothing /datasets /datasets/{dataset_id}
GET /health/live /health/ready /v2 /v2/health/live /v2/health/ready
GET /models /models/{name} /models/{ref} /models/{ref}/outcomes
GET /models/{name}/versions/{version} /models/{name}/versions/{version}/artifact
GET /models/{name}/matrices /models/{name}/matrices/{matrix}
GET /v2/models/{ref} /v2/models/{name}/versions/{version}
GET /v2/models/{ref}/ready /v2/models/{name}/versions/{version}/ready
GET /train /train/{job_id} /train/{job_id}/events /calibrate /calibrate/{job_id} /calibrate/{job_id}/events
GET /compare /compare/{job_id} /compare/{job_id}/events /replay /replay/{job_id} /replay/{job_id}/events
DELETE /models/{name}/aliases/{alias} /models/{name}/matrices/{matrix} /models/{name}/versions/{version}
DELETE /datasets/{dataset_id} /outcomes/{id} /train/{job_id} /calibrate/{job_id} /compare/{job_id} /replay/{job_id}
"""
# Fields, each with its chance in percent.
OPTIONS = """
/predict 10 {"rule": "most_probable", "benefits": null, "cost_matrix": null, "actions": null}
/predict 6 {"rule": "threshold", "threshold": "posterior"}
/predict 3 {"rule": "threshold", "threshold": "holdout"}
/predict 3 {"rule": "threshold", "threshold": 0.3}
/predict 3 {"rule": "beta_delta", "costs": {"majority": "healthy", "C_HD": 1, "C_DH": 7.5, "C_DD": 2}, "actions": null}
/predict 3 {"rule": "hierarchical", "costs": {"majority": "green", "C_HD": 1, "C_DH": 7.5}, "actions": null}
/predict 10 {"explain": true}
/predict 4 {"limits": {"treat": 1}}
/predict 3 {"limits": {"treat": {"at_least": 1, "at_most": 3}, "wait": 5}}
/predict 4 {"resources": [{"name": "hours", "use": {"treat": 3, "wait": 0.5}, "at_most": 20}]}
/predict 4 {"benefits": "autumn", "cost_matrix": null, "actions": null}
/retrieve 15 {"k_min": 1}
/retrieve 20 {"k_max": 3}
/retrieve 15 {"curve": true}
/retrieve 15 {"marginals": true}
/retrieve 8 {"min_recall": 0.3}
/retrieve 8 {"min_precision": 0.5}
/retrieve 10 {"empty": 1}
/retrieve 5 {"method": "half"}
/retrieve 5 {"method": "tuned_threshold"}
/retrieve 8 {"method": "sampled"}
/acquire 15 {"budget": 0.3}
/acquire 15 {"budget": 5}
/acquire 10 {"unavailable": ["pain"]}
/acquire 15 {"feature_costs": {"pain": 2}}
/benefit 60 {"points": 20}
/outcomes 20 {"correct": true}
/aliases/{alias} 100 {"version": 1}
/aliases/{alias} 40 {"version": 2}
/aliases/{alias} 20 {"shadow": ["scratch:1"]}
/matrices/{matrix} 100 {"benefits": {"healthy": {"a": 1, "b": 0}, "ill": {"a": -2, "b": 2}}}
/matrices/{matrix} 50 {"benefits": {"healthy": {"a": 3, "b": 0}, "ill": {"a": -2, "b": 1}}}
/recording 100 {"record": false}
/{ref}/outcomes 30 {"since": "2026-09-12T00:00:00Z"}
/{ref}/outcomes 30 {"by": "day"}
/{ref}/outcomes 30 {"by": "action"}
/audit 50 {"page_size": 2}
/models 50 {"page_size": 3}
/train 30 {"page_size": 3}
/train 30 {"status": "succeeded"}
/calibrate 30 {"model": "scores"}
"""
VALUES = json.loads(
    '[null, true, false, [], {}, [[]], [null], "", " ", "0", "nan", "x", "\\u0000", "é", -1, 0, 0.5, -0.0, 1.5, 1e308,'
    ' -1e308, 5e-324, 9223372036854775808, NaN, Infinity, [1, [2], "a", null], {"a": {}}, {"name": "f_beta"},'
    ' {"kind": "logistic"},'
    ' [1e308, -1e308], ["a", "a"], [[0, -1], [-10, 5]], {"": null}, "absent", "absent:1", "absent@live", "2026-09-01"]'
)
BODIES = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b'{"model":"ward","model":"x"}',
    b"\xff\xfe",
    b"{} {}",
    b"[" * 1500,
    b"\x93NUMPY",
)
KINDS = (
    "text/plain",
    JSON,
    NPY,
    CSV,
    ARROW,
    PARQUET,
    FORM,
    "application/json; charset=utf-16",
    "",
    "multipart/form-data; boundary=x",
)
ODD = "Content-Encoding=gzip Accept=x Prefer=wait=x Origin=http://a.test Host=a.test Sec-Fetch-Site=cross-site Expect=x"
STEPS = ("absent", "absent:1", "x" * 300, "%00", "%2F", "", "9999999999", "-1")

LEARNERS = {
    name: (LABELS[kind], json.loads(rest))
    for name, kind, rest in (line.split(None, 2) for line in MODELS.split("\n")[1:-1])
}
CLASSES = {name: its for name, (its, _) in LEARNERS.items()} | dict.fromkeys(
    ("scores", "plane", "joblib", "noted"), LABELS["two"]
)
DECIDING = [name for name in CLASSES if name not in ("labels", "sets", "noted")]
ASKING = ["wood", "chain", "budget", "tree", "price"]
PICKS = {
    "name": [*CLASSES, "absent"],
    "ref": [*CLASSES, "ward:1", "ward@champion", "ward@live", "absent:1"],
    "version": "1112",
    "alias": "ab",
    "matrix": ["a", "b", "autumn"],
    "dataset_id": ["visits", "plane", "ds_00000000000000ff"],
    "job_id": ["{ward}", "{wood}", "{scores}", "{plane}", "x", "job_00000000000000000000"],
    "id": ["r300-0", "r500-0", "absent"],
}


@dataclass(frozen=True)
class Sent:
    """A request, and the method and route that it is for."""

    route: str
    path: str
    body: Any = None
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    about: str = ""

    @property
    def content(self) -> bytes:
        return (
            self.body if isinstance(self.body, bytes) else b"" if self.body is None else json.dumps(self.body).encode()
        )

    @property
    def target(self) -> str:
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in self.query.items()}
        return self.path + "?" * bool(texts) + urlencode(texts)

    @property
    def key(self) -> str:
        said = repr((self.route, self.target, sorted(self.headers.items()))).encode() + self.content
        return hashlib.sha256(said).hexdigest()[:8]


def row(r: random.Random) -> list[Any]:
    return [r.randint(20, 80), round(r.gauss(135, 15), 1), r.choice(PAINS)]


def truth(r: random.Random, case: list[Any], classes: list[str]) -> Any:
    risk = (case[0] - 50) / 12 + (case[1] - 135) / 15 + PAINS.index(case[2]) - 1 + r.gauss(0, 1.2)
    if classes == LABELS["many"]:
        return [name for cut, name in enumerate(classes) if risk > cut - 1 + r.gauss(0, 0.5)]
    return classes[sum(risk > cut for cut in (0, 1.5)[: len(classes) - 1])] if classes else round(risk, 3)


def table(seed: int, classes: list[str], rows: int = 160) -> dict[str, Any]:
    r = random.Random(seed)
    cases = [row(r) for _ in range(rows)]
    return {"features": FEATURES, "rows": cases, "labels": [truth(r, case, classes) for case in cases]}


def as_table(kind: str, columns: list[str], rows: list[Any]) -> bytes:
    out = io.BytesIO()
    if kind == NPY:
        np.save(out, np.array(rows, dtype=np.float64).reshape(len(rows), len(columns)))
        return out.getvalue()
    made = pa.table({name: pa.array([each[j] for each in rows]) for j, name in enumerate(columns)})
    if kind == ARROW:
        with pa.ipc.new_stream(out, made.schema) as stream:
            stream.write_table(made)
    else:
        (pq.write_table if kind == PARQUET else pc.write_csv)(made, out)
    return out.getvalue()


def form(fields: dict[str, str], content: bytes) -> bytes:
    parts = [f'--f\r\nContent-Disposition: form-data; name="{k.strip()}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    head = '--f\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    return "".join([*parts, head]).encode() + content + b"\r\n--f--\r\n"


def first() -> Iterator[Sent]:
    """What a service is given first: data, models, an alias, a matrix, and a month of decisions with their outcomes."""
    wait = {"Prefer": "wait=60"}
    small = table(5, LABELS["two"], 60)
    rows = [[*case, label] for case, label in zip(small["rows"], small["labels"], strict=True)]
    for name, kept in (("visits", slice(0, 3)), ("plane", slice(0, 2))):
        body = as_table(CSV, [*FEATURES[kept], "condition"], [[*each[kept], each[3]] for each in rows])
        yield Sent("POST /datasets", "/datasets", body, {"label": "condition", "name": name}, {"Content-Type": CSV})
    for seed, (name, (classes, learner)) in enumerate(LEARNERS.items()):
        prices = {"feature_costs": {"age": 0, "pressure": 0.25, "pain": 0.5}} if name in ASKING else {}
        stated = {"benefits": [[0, -1], [-10, 5]]} if name == "blunt" else {}
        order = {"model": name, "learner": learner, "data": table(seed, classes), "seed": 1, **prices, **stated}
        yield Sent("POST /train", "/train", order, {}, wait, name)
    for name in ("ward", "scratch", "scratch", "noted"):
        order = {"model": name, "learner": {"kind": "logistic", "calibration": "none"}, "data": small}
        yield Sent("POST /train", "/train", order, {}, wait, name)
    scores = {
        "scores": [sum(case[:2]) / 50 - 3.7 for case in small["rows"]],
        "labels": small["labels"],
        "method": "sigmoid",
    }
    yield Sent(
        "POST /calibrate", "/calibrate", {"model": "scores", "classes": LABELS["two"], **scores}, {}, wait, "scores"
    )
    X, pickled = np.array([case[:2] for case in small["rows"]], dtype=np.float32), io.BytesIO()
    fitted = LogisticRegression(C=0.01, max_iter=2000).fit(X, np.array(small["labels"]))
    joblib.dump(fitted, pickled)
    exported = to_onnx(fitted, X[:1], options={"zipmap": False}, target_opset=15).SerializeToString()
    for name, kind, content in (("plane", "onnx", exported), ("joblib", "joblib", pickled.getvalue())):
        headers = {"Content-Type": f"{FORM}; boundary=f", **wait}
        body = form({"format": kind, "dataset": "plane"}, content)
        yield Sent("POST /models/{name}/versions", f"/models/{name}/versions", body, {}, headers, name)
    yield Sent("PUT /models/{name}/aliases/{alias}", "/models/ward/aliases/champion", {"version": 1})
    words = {"healthy": {"treat": -1, "wait": 0}, "ill": {"treat": 5, "wait": -10}}
    yield Sent("PUT /models/{name}/matrices/{matrix}", "/models/ward/matrices/autumn", {"benefits": words})
    r = random.Random(7)
    for day in DAYS:
        cases, ids = [row(r) for _ in range(20)], [f"first-{day}-{i}" for i in range(20)]
        record = {"ids": ids, "instances": True, "at": f"{day}T12:00:00Z"}
        asked = {"model": "ward:1", "instances": cases, "benefits": words, "record": record}
        yield Sent("POST /predict", "/predict", asked, about="ward")
        known = [truth(r, case, LABELS["two"]) for case in cases]
        told = [{"id": i, "truth": t, "at": f"{day}T13:00:00Z"} for i, t in zip(ids, known, strict=True)]
        yield Sent("POST /outcomes", "/outcomes", {"outcomes": told}, about="ward")


def shares(r: random.Random, k: int) -> list[float]:
    drawn = [r.gammavariate(0.7, 1) + 1e-9 for _ in range(k)]
    return [one / sum(drawn) for one in drawn]


def stakes(r: random.Random, classes: list[str]) -> dict[str, Any]:
    """A matrix in one of its forms; nothing for a model of numbers."""
    if not classes:
        return {}
    actions = classes if r.random() < 0.3 else ["wait", "treat", "refer", "test"][: r.randint(2, 4)]
    listed = [[round(r.uniform(-10, 10), 1) for _ in actions] for _ in classes]
    name = r.choice(("benefits", "benefits", "cost_matrix"))
    if r.random() < 0.4:
        return {name: {c: dict(zip(actions, each, strict=True)) for c, each in zip(classes, listed, strict=True)}}
    return {name: listed} | ({} if actions is classes else {"actions": actions})


def chosen(r: random.Random, route: str) -> dict[str, Any]:
    """Some of the route's options."""
    found: dict[str, Any] = {}
    for end, chance, fields in (line.split(None, 2) for line in OPTIONS.split("\n")[1:-1]):
        if route.endswith(end) and r.random() < int(chance) / 100:
            found |= json.loads(fields)
    return found


def cases(r: random.Random, name: str, sizes: tuple[int, ...]) -> tuple[list[str], list[list[Any]]]:
    """The features of a model, and rows of them, some with missing and unseen values."""
    if name == "scores":
        return ["score"], [[round(r.gauss(0, 1.5), 3)] for _ in range(r.choice(sizes))]
    width = 2 if name in ("plane", "joblib") else 3
    rows = [row(r)[:width] for _ in range(r.choice(sizes))]
    for each in rows:
        if width == 3 and r.random() < 0.15:
            each[r.randrange(3)] = None
        if width == 3 and r.random() < 0.05:
            each[2] = "never seen"
    return FEATURES[:width], rows


def framed(
    r: random.Random, sent: Sent, fields: dict, member: str, columns: list[str], rows: list, kinds: tuple
) -> Sent:
    """The rows as a member of the fields, or as a table with the fields beside it."""
    kind, accept = r.choice(kinds), r.choice(("*/*", "*/*", *kinds))
    headers = {"Content-Type": kind, "Accept": accept}
    if kind == JSON:
        objects = member in ("instances", "outcomes") and (member == "outcomes" or r.random() < 0.4)
        listed = [dict(zip(columns, one, strict=True)) for one in rows] if objects else rows
        return replace(sent, body={**fields, member: listed}, headers=headers)
    return replace(sent, body=as_table(kind, columns, rows), query=fields, headers=headers)


def predict(r: random.Random, n: int, sent: Sent) -> Sent:
    name = r.choice(DECIDING)
    fields = stakes(r, CLASSES[name]) | (chosen(r, "/predict") if CLASSES[name] else {})
    if CLASSES[name] and r.random() < 0.25:
        given = [shares(r, len(CLASSES[name])) for _ in range(r.choice((0, 1, 3, 20)))]
        sent, fields = replace(sent, about="given"), {"classes": CLASSES[name], **fields}
        return framed(r, sent, fields, "probabilities", CLASSES[name], given, (JSON, JSON, NPY))
    if CLASSES[name] and r.random() < 0.12:
        fields["priors"] = dict(zip(CLASSES[name], shares(r, len(CLASSES[name])), strict=True))
    columns, rows = cases(r, name, (0, 1, 1, 1, 2, 3, 5, 20, 60))
    if r.random() < 0.08:
        name, sent = "noted", replace(sent, about="noted")
        ids = {"ids": [f"r{n}-{i}" for i in range(len(rows))], "instances": r.random() < 0.5}
        fields |= r.choice(({"record": True}, {"record": ids}, {"record": ids}, {"record": ids, "explore": 0.2}))
    elif r.random() < 0.1:
        columns, rows = [*columns, "patient"], [[*one, f"p{i}"] for i, one in enumerate(rows)]
        fields |= {"id": "patient", "keep": ["patient"]}
    kinds = (CSV, ARROW, PARQUET, *((JSON, JSON, JSON) if "id" not in fields else ()))
    kinds += (NPY,) * (len(columns) < 3 and "id" not in fields)
    name = "ward@champion" if name == "ward" and r.random() < 0.3 else name
    return framed(
        r, replace(sent, about=sent.about or name), {"model": name, **fields}, "instances", columns, rows, kinds
    )


def retrieve(r: random.Random, _: int, sent: Sent) -> Sent:
    setting = r.choice(("binary", "binary", "multilabel", "multiclass"))
    name = r.choice(("f_beta", "f_beta", "jaccard", "am", "g_tp_pr", "h_mean", "g_mean", "auc", "fractional_linear"))
    loss = {"name": name} | ({"beta": r.choice((0.5, 1, 2))} if name == "f_beta" else {})
    loss |= {"c": [0, -2, 1, 1], "d": [0, 0, 1, r.choice((1, 2))]} if name == "fractional_linear" else {}
    fields = {"setting": setting, "loss": loss, **chosen(r, "/retrieve")}
    sent = replace(sent, about=f"{setting} {name}")
    if r.random() < 0.35:
        model = r.choice({"binary": DECIDING[:8], "multilabel": ["labels", "sets"], "multiclass": DECIDING}[setting])
        columns, rows = cases(r, model, (1, 2, 5, 20))
        return framed(r, sent, {"model": model, **fields}, "instances", columns, rows, (JSON,))
    items, many = r.choice((1, 2, 5, 12, 40, 150)), r.choice((1, 1, 2, 6))
    drawn = [[round(r.betavariate(0.5, 1.5), 4) for _ in range(items)] for _ in range(many)]
    sets = [shares(r, items) for _ in drawn] if setting == "multiclass" else drawn
    kind = r.choice((JSON, JSON, JSON, NPY))
    headers = {"Content-Type": kind}
    if kind == JSON:
        return replace(sent, body={**fields, "probabilities": sets[0] if many == 1 else sets}, headers=headers)
    return replace(sent, body=as_table(NPY, ["p"] * items, sets), query=fields, headers=headers)


def acquire(r: random.Random, n: int, sent: Sent) -> Sent:
    name = r.choice(ASKING)
    fields = {"model": name, **(stakes(r, CLASSES[name]) if r.random() < 0.5 else {}), **chosen(r, "/acquire")}
    fields |= {"record": {"ids": [f"a{n}"]}} if r.random() < 0.03 else {}
    asked = [one for one in FEATURES if one not in fields.get("unavailable", ())]
    known = [{k: v for k, v in zip(FEATURES, row(r), strict=True) if k in asked and r.random() < 0.5} for _ in range(3)]
    sent = replace(sent, about=name)
    return replace(sent, body={**fields, **r.choice(({"known": known[0]}, {"instances": known}))})


def simulate(r: random.Random, _: int, sent: Sent) -> Sent:
    name = r.choice(ASKING)
    data = table(r.randrange(50), CLASSES[name], 25)
    body = {"model": name, "rows": data["rows"], "labels": data["labels"], "budgets": [0.3, 1]}
    return replace(sent, body=body | (stakes(r, CLASSES[name]) if r.random() < 0.5 else {}), about=name)


def benefit(r: random.Random, _: int, sent: Sent) -> Sent:
    if "{" in sent.route:
        fields = chosen(r, "/benefit") | stakes(r, CLASSES.get(sent.about, LABELS["two"]))
        return replace(sent, body=fields, headers={"Accept": r.choice((JSON, JSON, SVG))})
    classes = LABELS[r.choice(("two", "three"))]
    fields = {"classes": classes, **stakes(r, classes), **chosen(r, "/benefit")}
    given = [shares(r, len(classes)) for _ in range(r.choice((1, 10, 40)))]
    body = {**fields, "labels": [r.choice(classes) for _ in given], "probabilities": given}
    return replace(sent, body=body, headers={"Accept": r.choice((JSON, JSON, SVG))})


def infer(r: random.Random, n: int, sent: Sent) -> Sent:
    name = r.choice(DECIDING)
    columns, rows = cases(r, name, (1, 2, 8))
    binary, raw, inputs = r.random() < 0.4, b"", []
    for j, column in enumerate(columns):
        values = [one[j] for one in rows]
        width = r.choice((32, 64))
        tensor = {"name": column, "datatype": "BYTES" if column == "pain" else f"FP{width}", "shape": [len(values)]}
        if binary and column != "pain":
            packed = np.array([np.nan if v is None else v for v in values], dtype=f"<f{width // 8}").tobytes()
            inputs.append(tensor | {"parameters": {"binary_data_size": len(packed)}})
            raw += packed
        else:
            inputs.append(tensor | {"data": values})
    said: dict[str, Any] = {k: json.dumps(v) for k, v in stakes(r, CLASSES[name]).items()} if r.random() < 0.7 else {}
    said |= {"binary_data_output": True} if binary and r.random() < 0.5 else {}
    body = {"id": str(n), "inputs": inputs, "parameters": said}
    body |= {"outputs": [{"name": "probabilities"}]} if r.random() < 0.2 else {}
    path = re.sub(r"models/[^/]+(/versions/[^/]+)?", rf"models/{name}\g<1>", sent.path)
    head = json.dumps(body).encode()
    sent = replace(sent, path=path, about=name)
    if not binary:
        return replace(sent, body=body)
    return replace(sent, body=head + raw, headers={"Content-Type": BINARY, LENGTH: str(len(head))})


def outcomes(r: random.Random, n: int, sent: Sent) -> Sent:
    ids = [f"r{r.randrange(n)}-{i}" for i in range(r.choice((1, 3, 30)))]
    told = [[one, r.choice(("healthy", "ill", None)), r.choice((None, "treat", "wait"))] for one in ids]
    return framed(
        r, sent, chosen(r, "/outcomes"), "outcomes", ["id", "truth", "action"], told, (JSON, CSV, ARROW, PARQUET)
    )


def upload(r: random.Random, n: int, sent: Sent) -> Sent:
    data = table(r.randrange(99), LABELS["two"], r.choice((5, 20, 60)))
    rows = [[*case, label] for case, label in zip(data["rows"], data["labels"], strict=True)]
    query: dict[str, Any] = {"label": r.choice(("condition", "condition", "none")), "name": f"u{n}"}
    query |= {"types": {r.choice(FEATURES): r.choice(("category", "ignore", "number"))}} if r.random() < 0.2 else {}
    kind = r.choice((CSV, CSV, PARQUET, f"{FORM}; boundary=f", "application/gzip"))
    body = as_table(PARQUET if kind == PARQUET else CSV, [*FEATURES, "condition"], rows)
    body = gzip.compress(body, mtime=0) if "gzip" in kind else body
    if FORM in kind:
        body, query = form({k: v if isinstance(v, str) else json.dumps(v) for k, v in query.items()}, body), {}
    return replace(sent, body=body, query=query, headers={"Content-Type": kind})


def job(r: random.Random, n: int) -> Sent:
    """A job on few rows, which is waited for."""
    classes = LABELS[r.choice(("two", "three"))]
    data, name = table(r.randrange(9), classes, 40), f"scratch-{n}"
    kinds = ("logistic", "random_forest", "cost_naive_bayes", "forest_chain", "cost_tree")
    learner = r.choice([one for _, one in LEARNERS.values() if one["kind"] in kinds and "task" not in one])
    given = {
        "probabilities": [shares(r, len(classes)) for _ in data["rows"]],
        "classes": classes,
        "labels": data["labels"],
    }
    compared = {
        "dataset": "visits",
        "learners": [{"kind": "cost_naive_bayes"}],
        "benefits": [[0, -1], [-10, 5]],
        "folds": 2,
    }
    rules = {"rules": [{"rule": "most_probable"}, {"limits": {"treat": 5}}], **r.choice(({}, {"models": ["ward:2"]}))}
    route, path, body = r.choice((
        ("/train", "/train", {"model": name, "learner": learner, "data": data, "refit": r.random() < 0.5}),
        ("/train", "/train", {"model": name, "learner": learner, "data": data, "holdout": 0}),
        ("/calibrate", "/calibrate", {"model": name, **given}),
        ("/compare", "/compare", compared),
        ("/models/{ref}/replay", "/models/ward/replay", rules),
        (seen := "/datasets/from-outcomes", seen, {"model": "ward", "until": f"{r.choice(DAYS)}T00:00:00Z"}),
    ))  # fmt: skip
    return Sent(f"POST {route}", path, body, {}, {"Prefer": "wait=60"})


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value))[:40]:
            yield value, key
            yield from places(inner)


def spoilt(r: random.Random, sent: Sent) -> Sent:
    """Something about the request is not as it should be."""
    other = r.choice(VALUES)
    if isinstance(sent.body, dict) and sent.body and r.random() < 0.7:
        body = json.loads(json.dumps(sent.body))
        holder, key = r.choice([(body, next(iter(body))), *places(body)])
        value = holder.pop(key)
        put = r.choice(
            (None, {key: other}, {key: other}, {key: [value] * 2}, {"a/b~c": value}, {key: value, "rule": other})
        )
        if isinstance(holder, dict):
            holder |= put or {}
        elif put:
            holder.insert(key, next(iter(put.values())))
        return replace(sent, body=body)
    steps = sent.path.split("/")
    steps[r.randrange(1, len(steps))] = r.choice(STEPS)
    method = r.choice(("GET", "PATCH", "HEAD", "OPTIONS", "POST"))
    long = b'{"model":"' + b"x" * r.choice((LARGE, 2 * LARGE + 9)) + b'"}'
    changed = (
        {"query": {**sent.query, r.choice(("unknown", "page_size", "model", *sent.query)): other}},
        {"headers": {**sent.headers, "Content-Type": r.choice(KINDS)}},
        {"headers": {**sent.headers, **dict([r.choice(ODD.split()).split("=", 1)])}},
        {"path": "/".join(steps)},
        {"route": f"{method} {sent.route.split()[1]}"},
        {"body": sent.content[: r.randrange(len(sent.content) + 1)]},
        {"body": long if r.random() < 0.05 else r.choice(BODIES)},
    )
    return replace(sent, **r.choice(changed))


MAKERS = {
    "/predict": predict, "/retrieve": retrieve, "/acquire": acquire, "/acquire/simulate": simulate, "/benefit": benefit,
    "/models/{ref}/benefit": benefit, "/outcomes": outcomes, "/datasets": upload, "/v2/models/{ref}/infer": infer,
    "/v2/models/{name}/versions/{version}/infer": infer,
}  # fmt: skip


def drawn(r: random.Random, n: int) -> Sent:
    weights = {line[4:]: int(line[:4]) for line in ROUTES.split("\n")[1:-1]}
    others = [f"{line.split()[0]} {path}" for line in OTHERS.split("\n")[1:-1] for path in line.split()[1:]]
    route = r.choices([*weights, *others], [*weights.values(), *[4] * len(others)])[0]
    method, path = route.split()
    picks = {name: r.choice(values) for name, values in PICKS.items()}
    if method in ("PUT", "DELETE"):  # of what no other request is about
        picks |= {"name": r.choice(("scratch", "scratch", "gone")), "version": "7", "dataset_id": "ds_00000000000000ff"}
    about = next((picks[name] for name in ("name", "ref") if "{" + name in path), "").partition(":")[0]
    sent = Sent(route, re.sub(r"\{(\w+)\}", lambda found: picks[found[1]], path), about=about.partition("@")[0])
    if method == "POST":
        return MAKERS[path](r, n, sent)
    if method == "PUT":
        return replace(sent, body=chosen(r, path))
    query = chosen(r, path) if method == "GET" else {}
    return replace(sent, query=query, headers={"Accept": r.choice((JSON, JSON, SVG))})


def requests(count: int, *, keyed: bool) -> Iterator[Sent]:
    """The list of the service with or without keys; the header `Key` is the name of a key, `wrong` or `none`."""
    r = random.Random(f"26 {keyed}")
    wrong, given = 0, list(first())
    for n in range(count):
        sent, who = given[n] if n < len(given) else job(r, n) if n % JOBS_EVERY == 0 else drawn(r, n), "admin"
        if n >= len(given) and n % JOBS_EVERY == 1:
            sent = Sent("DELETE /models/{name}", f"/models/scratch-{n - 1}")
        elif n >= len(given):
            sent = spoilt(r, sent) if r.random() < 0.4 else sent
            who = r.choice(("admin", "none", "wrong" if wrong < 15 else "none", *KEY_NAMES, *KEY_NAMES))
            wrong += who == "wrong"  # more than 20 a minute are refused for a time
        yield replace(sent, headers={**sent.headers, "Key": who}) if keyed else sent
