"""Valid answers of a service, by the end of the path."""

import io
import json

import httpx
import pyarrow as pa

FEATURES = [{"name": "age", "type": "numeric"}, {"name": "pain", "type": "category"}]
CARD = {
    "name": "m",
    "version": 1,
    "classes": ["a", "b"],
    "learner": {"kind": "logistic"},
    "metrics": {},
    "features": FEATURES,
}
MODEL = {"name": "m", "version": 1}
SHARED = {
    "model": MODEL,
    "classes": ["a", "b"],
    "actions": ["x", "y"],
    "rule": "expected_benefit",
    "warnings": ["w"],
}
EXPLANATION = {"runner_up": "y", "margin": 0.5, "contributions": {"age": 1.0}}
JOB = {
    "id": "job_1",
    "kind": "train",
    "status": "succeeded",
    "progress": 1.0,
    "stage": None,
    "model": MODEL,
}
JOB |= {"error": None, "warnings": []}
MATRIX = {"name": "autumn", "version": 1, "benefits": {"a": {"x": 1}}}
DATASET = {"id": "ds_1", "name": "n", "warnings": [], "from": {"warnings": []}}
REPORT = {
    name: {"mean": 0.5, "low": None, "high": 1}
    for name in ("promised", "realised", "difference")
}
REPORT |= {"verdict": "as_promised", "advice": ["a"]}
ROWS = [{"age": 1, "pain": "mild"}, {"age": 2, "pain": "none"}]
BENEFITS = {"a": {"x": 1, "y": 0}, "b": {"x": 0, "y": 1}}
VALID = {  # by the end of the path
    "/models": {"models": [{"name": "m"}], "next_page_token": None},
    "/datasets": {"datasets": [DATASET], "next_page_token": None, **DATASET},
    "/from-outcomes": DATASET,
    "/predict": {
        **SHARED,
        "decisions": ["x", "y"],
        "probabilities": [[0.5, 0.5], [1, 0]],
        "expected_benefits": [[1, 2], [3, 4]],
        "ids": ["1", "2"],
        "explanations": [EXPLANATION] * 2,
    },
    "/acquire": {
        "status": "acquire",
        "next": {"feature": "age", "cost": 1.0},
        "results": [{}, {}],
    },
    "/retrieve": {"sets": [{"k": 1, "selected": [0]}]},
    "/benefit": {"rules": [{"rule": "r"}]},
    "/outcomes": {
        "accepted": 1,
        "unchanged": 0,
        "open": 0,
        "unknown": [],
        "conflicts": [],
        **REPORT,
    },
    "/matrices": {"matrices": [MATRIX]},
    "/autumn": MATRIX,
    "/decisions": {"decisions": [{"id": "d", "at": 0, "action": "x", "stake": 1.5}]},
    "/guarantees": {"guarantees": [MATRIX]},
    "/careful": MATRIX,
    "/reasons": {"model": "m", "version": 1, "texts": {}},
    "/train": JOB,
    "/compare": JOB | {"kind": "compare", "result": {"table": [{}]}},
    "/job_1": JOB | {"result": {"table": [{}]}},
    "/m": {"versions": [{}], "latest": 1, "aliases": {}},
    "/m:1": CARD,
}


def arrow(rows=2):
    columns = {
        "decision": ["x", "y"],
        "p:a": [0.5, 1],
        "p:b": [0.5, 0],
        "benefit:x": [1.0, 3],
        "benefit:y": [2.0, 4],
    }
    table = pa.table({name: values * (rows // 2) for name, values in columns.items()})
    table = table.replace_schema_metadata({"payoff": json.dumps(SHARED)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def of_path(request, answers=VALID):
    """The answer at a path, in the format that is asked for."""
    content = answers.get(f"/{request.url.path.rpartition('/')[2]}", {})
    headers = {"Content-Type": "application/json", "Payoff-Answer": json.dumps(SHARED)}
    if request.headers.get("Accept") == "application/vnd.apache.arrow.stream":
        rows = 3000 if request.headers["Content-Type"] == "application/x-npy" else 2
        headers["Content-Type"] = request.headers["Accept"]
        return httpx.Response(200, content=arrow(rows), headers=headers)
    return httpx.Response(200, content=json.dumps(content), headers=headers)
