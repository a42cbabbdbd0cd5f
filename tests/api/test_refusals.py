"""Bad input: every mistake is answered with 422 and a JSON pointer to where it was made, and nothing is done."""

import json

import httpx
import pyarrow as pa
import pytest
from sqlalchemy import func, select

from app.outcomes.tables import DECISIONS
from tests.api.column_bodies import arrow
from tests.conftest import database_of, trained, two_class_rows, uploaded

ROW = [58.0, 77.5, "mild"]
MATRIX = [[0, -1], [-10, 5]]
COSTS = {"majority": "healthy", "C_HD": 1, "C_DH": 1}
CLASSES = ["healthy", "ill"]
ACTIONS = {
    "healthy": {"wait": 0, "treat": -1, "refer": -0.5},
    "ill": {"wait": -10, "treat": 5, "refer": 2},
}
BEDS = {"name": "bed hours", "use": {"treat": 3, "refer": 1}, "at_most": 7}
MOST_PROBABLE = {"rule": "most_probable", "benefits": ...}
DEEP = json.loads("[" * 500 + "]" * 500)
SLASH = {"a/b": 50, "c~d": "mild", "e": 70}  # an instance of `escaped`
N = 40
SCORES = [i / 7 for i in range(N)]
LABELS = ["clean" if 7 * i % N < i else "spam" for i in range(N)]
DATA = two_class_rows(60)

RISING = {
    "name": "fractional_linear",
    "c": [0.25, 0.5, -0.2, 0],
    "d": [1, 1, 0, 0],
}  # with true positives
WRONG_LOSSES = [
    ({"name": "f1"}, "/name"),
    *(({"name": "f_beta", "beta": beta}, "/beta") for beta in (0, 1e200)),
    ({"name": "f_beta", "b/~": 1}, "/b~1~0"),
    ({"name": "fractional_linear", "c": [1, 2, 3, 4]}, "/d"),
    ({"name": "fractional_linear", "c": [1, 0, 0, 0], "d": [1e308, 0, 0, 0]}, "/d/0"),
    ({"name": "fractional_linear", "c": [1, 0, 0, 5e-324], "d": [1, 0, 0, 0]}, "/c/3"),
]

# by route, the fields of a request that is accepted
ACCEPTED = {
    "/predict": {"model": "ward", "instances": [ROW], "benefits": MATRIX},
    "/predict (given)": {"probabilities": [[0.9, 0.1], [0.4, 0.6]], "classes": CLASSES, "benefits": ACTIONS},
    "/predict (escaped)": {"model": "escaped", "benefits": MATRIX},
    "/acquire": {"model": "woods"},
    "/acquire (escaped)": {"model": "escaped"},
    "/acquire/simulate": {"model": "woods"},
    "/retrieve": {"setting": "binary", "loss": {"name": "f_beta"}},
    "/benefit": {"probabilities": [[0.9, 0.1]] * 3, "classes": CLASSES, "labels": ["ill", "ill", "healthy"],
                 "benefits": MATRIX},
    "/models/ward/benefit": {"benefits": MATRIX},
    "/models/escaped/benefit": {"benefits": MATRIX},
    "/train": {"model": "refused", "learner": {"kind": "logistic"}, "data": DATA},
    "/compare": {"dataset": "uploaded", "learners": [{"kind": "logistic"}], "benefits": MATRIX, "folds": 3},
    "/calibrate": {"model": "refused", "scores": SCORES, "classes": ["spam", "clean"], "labels": LABELS},
    "/datasets/from-outcomes": {"model": "ward"},
    "/models/ward/replay": {"rules": [{}]},
    "PUT /models/ward/aliases/refused": {"version": 1},
    "PUT /models/ward/matrices/refused": {"benefits": MATRIX},
}  # fmt: skip

# by route, changes of those fields, where `...` leaves one out, and the place of the error
REFUSED: dict[str, list[tuple[dict, str]]] = {
    "/predict": [
        ({"benefits": ...}, "/benefits"),
        ({"benefits": [[1, 2], [3]]}, "/benefits/1"),
        ({"benefits": [MATRIX] * 2}, "/benefits"),
        ({"benefits": DEEP, "instances": [ROW] * 2}, "/benefits"),
        ({"threshold": 0.5}, "/threshold"),
        ({"costs": COSTS}, "/costs"),
        ({"rule": "beta_delta", "benefits": ...}, "/costs"),
        ({"rule": "beta_delta", "benefits": ..., "costs": COSTS}, "/costs/C_DD"),
        (
            {
                "rule": "hierarchical",
                "benefits": ...,
                "costs": COSTS | {"majority": "x"},
            },
            "/costs/majority",
        ),
        (
            {
                "rule": "hierarchical",
                "benefits": ...,
                "costs": COSTS | {"majority": True},
            },
            "/costs/majority",
        ),
        ({"priors": {"ill": 1}}, "/priors"),
        ({"instances": [[1, "2", "mild"]]}, "/instances/0/1"),
        (
            {"instances": [ROW] * 5000 + [{"age": 1, "pulse": 2, "pain": None}]},
            "/instances/5000",
        ),
        ({"explain": True, **MOST_PROBABLE}, "/explain"),
        (
            {"explain": True, "benefits": {name: {"go": 1.0} for name in CLASSES}},
            "/explain",
        ),
        *(({"ids": ids}, "/ids") for ids in ([1, 2], "abc")),
        *(({"ids": [one]}, "/ids/0") for one in (None, "x" * 129)),
        ({"id": "patient"}, "/id"),
        ({"keep": ["ward"]}, "/keep"),
        ({"record": True, "benefits": [[0, -1], [1e101, 5]]}, "/benefits"),
        *(({"record": {"ids": ids}}, "/record/ids") for ids in ("a", [], ["a", "b"])),
        *(
            ({"record": {"ids": [one]}}, "/record/ids/0")
            for one in (7, "", "x" * 129, "a\0")
        ),
        *(
            ({"record": {"at": at}}, "/record/at")
            for at in ("soon", 1e12, -1, [1], "2999-01-01", True)
        ),
        ({"record": {"ids": ["same", "same"]}, "instances": [ROW, ROW]}, "/record/ids"),
        ({"record": {"ids": ["a"]}, "ids": ["b"]}, "/record/ids"),
        ({"record": True, "ids": ["x" * 129]}, "/ids/0"),
        *(({"record": True, "explore": share}, "/explore") for share in (0, 0.6, True)),
        *(({"explore": 0.1, **more}, "/explore") for more in ({}, {"record": False})),
        ({"explore": 0.1, "record": True, "limits": {"ill": 1}}, "/explore"),
        ({"explore": 0.1, "record": True, "explain": True}, "/explore"),
        (
            {"explore": 0.1, "record": True, "rule": "threshold", "threshold": 0.5},
            "/explore",
        ),
    ],
    "/predict (given)": [
        ({"probabilities": [[0.5, 0.5], [1.2, -0.2]]}, "/probabilities/1/1"),
        ({"probabilities": [[0.5, "0.5"]]}, "/probabilities/0/1"),
        ({"probabilities": [0.5, 0.5]}, "/probabilities/0"),
        ({"probabilities": [[0, 0]]}, "/probabilities/0"),
        *(({"classes": classes}, "/classes") for classes in (..., ["ill", "ill"])),
        ({"model": "ward"}, "/model"),
        ({"instances": [ROW]}, "/instances"),
        ({"probabilities": ...}, "/model"),
        ({"probabilities": ..., "model": "ward", "instances": []}, "/classes"),
        ({"priors": {"healthy": 0.5, "ill": 0.5}}, "/priors"),
        (
            {"rule": "threshold", "threshold": "holdout", "benefits": MATRIX},
            "/threshold",
        ),
        ({"record": True}, "/record"),
        (
            {"benefits": "words"},
            "/benefits",
        ),  # only requests to a model may name a saved matrix
        ({"limits": {"tread": 1}}, "/limits/tread"),
        *(
            ({"limits": {"treat": most}}, "/limits/treat")
            for most in (1.5, {}, {"at_least": 3, "at_most": 2})
        ),
        *(
            ({"limits": limits}, "/limits")
            for limits in ({}, {f"a{i}": 1 for i in range(101)})
        ),
        (
            {
                "limits": {"treat": 1},
                "resources": [BEDS | {"name": f"r{i}"} for i in range(100)],
            },
            "/limits",
        ),
        ({"limits": {"ill": 1}, **MOST_PROBABLE}, "/limits"),
        ({"limits": {"treat": 1}, "explain": True}, "/explain"),
        ({"resources": [BEDS] * 2}, "/resources/1/name"),
        ({"resources": [BEDS | {"at_most": -1}]}, "/resources/0/at_most"),
        ({"resources": [BEDS | {"use": {"tread": 1}}]}, "/resources/0/use/tread"),
        *(
            ({"resources": [BEDS | {"use": {"treat": use}}]}, "/resources/0/use/treat")
            for use in (-3, 1e200)
        ),
        ({"resources": [BEDS], "rule": "threshold", "threshold": 0.5}, "/resources"),
        (
            {"limits": {"treat": {"at_least": 3}, "wait": 3}},
            "/limits",
        ),  # of two instances
        (
            {
                "limits": {
                    "treat": 1,
                    "refer": {"at_least": 2, "at_most": 2},
                    "wait": {"at_least": 1},
                }
            },
            "/limits",
        ),
        (
            {
                "limits": {"treat": {"at_least": 2}},
                "resources": [BEDS | {"at_most": 5}],
            },
            "/resources",
        ),
    ],
    "/predict (escaped)": [
        ({"instances": [SLASH, SLASH | {"a/b": "old"}]}, "/instances/1/a~1b"),
        ({"instances": [SLASH | {"c~d": 1}]}, "/instances/0/c~0d"),
        ({"instances": [SLASH], "priors": {"x/y": "much", "z~": 0.5}}, "/priors/x~1y"),
    ],
    "/acquire": [
        ({"known": {"age": "old"}}, "/known/age"),
        ({"known": {}, "instances": [{}]}, "/known"),
        ({"instances": [{}, [1, 2, 3]]}, "/instances/1"),
        (
            {"known": {}, "feature_costs": [{"feature": "age", "cost": 1}] * 2},
            "/feature_costs/1/feature",
        ),
        ({"known": {}, "unavailable": ["pain", "height"]}, "/unavailable/1"),
        ({"known": {"age": 1}, "unavailable": ["age"]}, "/unavailable/0"),
        ({"known": {}, "unavailable": ["age", "pain", "age"]}, "/unavailable/2"),
        ({"known": {}, "actions": ["a", "b"]}, "/actions"),
        ({"known": {}, "model": "ward"}, "/model"),
        (
            {
                "known": {},
                "benefits": [[0] * 1001] * 2,
                "actions": [f"a{i}" for i in range(1001)],
            },
            "/actions",
        ),
    ],
    "/acquire (escaped)": [
        ({"known": {"a/b": "old"}}, "/known/a~1b"),
        ({"instances": [{}, {"c~d": 1}]}, "/instances/1/c~0d"),
        ({"known": {}, "feature_costs": {"a/b": -1}}, "/feature_costs/a~1b"),
        (
            {"known": {}, "feature_costs": [{"feature": "e", "cost": 1, "k/~": 1}]},
            "/feature_costs/0/k~1~0",
        ),
    ],
    "/acquire/simulate": [
        ({}, ""),
        (
            {
                "dataset": "ds_0000000000000000",
                "rows": DATA["rows"][:1],
                "labels": ["ill"],
            },
            "",
        ),
        ({"rows": DATA["rows"][:2], "labels": ["ill"]}, "/labels"),
        ({"rows": DATA["rows"][:2], "labels": ["ill", "dead"]}, "/labels/1"),
        (
            {"rows": DATA["rows"][:1], "labels": ["ill"], "budgets": [1, -2]},
            "/budgets/1",
        ),
    ],
    "/retrieve": [
        ({"probabilities": [0.5], "setting": ...}, "/setting"),
        ({"probabilities": [0.5, None]}, "/probabilities/1"),
        ({"probabilities": [[True]]}, "/probabilities/0/0"),
        *(
            ({"probabilities": mixed}, "/probabilities/1")
            for mixed in ([[0.5], 0.5], [0.5, [0.5]])
        ),
        ({"instances": [[1]]}, "/model"),
        ({"probabilities": [0.5], "instances": [[1]]}, "/instances"),
        ({"probabilities": [0.5], "model": "ward"}, "/model"),
        ({"model": "ward"}, "/instances"),
        ({"model": "ward", "instances": [[1, 2]]}, "/instances/0"),
        ({"model": "ward", "instances": [], "positive": True}, "/positive"),
        ({"probabilities": [0.5, 1.5]}, "/probabilities/1"),
        ({"probabilities": [[0.5], [0.1, 1.5]]}, "/probabilities/1/1"),
        (
            {"probabilities": [[0.5, 0.5], [0.5, 0.4]], "setting": "multiclass"},
            "/probabilities/1",
        ),
        (
            {"probabilities": [[0.5, 0.5], [1.0]], "setting": "multiclass"},
            "/probabilities/1",
        ),
        *(
            ({"probabilities": sets, "k_min": 2}, "/k_min")
            for sets in ([[0.5], [0.5, 0.1]], [0.5])
        ),
        *(
            ({"probabilities": [0.5], "method": way}, "/method")
            for way in ("half", "sampled")
        ),
        ({"probabilities": [0.5], "positive": "ill"}, "/positive"),
        ({"probabilities": [0.9, 0.4], "loss": RISING}, "/loss"),
        *(
            ({"probabilities": [0.5], "loss": loss}, f"/loss{place}")
            for loss, place in WRONG_LOSSES
        ),
    ],
    "/benefit": [
        ({"labels": ["ill"]}, "/labels"),
        ({"labels": ["ill", "healthy", "il"]}, "/labels/2"),
        (
            {"classes": [0, 1], "labels": [0, "1", 1]},
            "/labels/1",
        ),  # which only looks like a class
        ({"classes": ["0", "1"], "labels": ["0", 1, "1"]}, "/labels/1"),
        ({"labels": [], "probabilities": []}, "/labels"),
        ({"probabilities": [[0.5, 0.4]] * 3}, "/probabilities/0"),
        *(({"benefits": benefits}, "/benefits") for benefits in (..., "words")),
    ],
    "/models/ward/benefit": [
        ({"benefits": [MATRIX]}, "/benefits"),
        ({"priors": {"ill": 1}}, "/priors"),
    ],
    "/models/escaped/benefit": [
        ({"priors": {"x/y": "much"}}, "/priors/x~1y"),
        ({"priors": {"x/": 1}}, "/priors/x~1"),
    ],
    "/train": [
        ({"learner": {"kind": "oracle"}}, "/learner/kind"),
        ({"learner": {"kind": "logistic", "C/~": 1}}, "/learner/C~1~0"),
        ({"learner": {"kind": "kernel_logistic", "majority": 0}}, "/learner/majority"),
        ({"learner": {"kind": "benefit_logistic"}}, "/benefits"),
        ({"learner": {"kind": "multilabel_logistic"}}, "/learner/kind"),
        ({"model": "Trial"}, "/model"),
        *(({"benefits": benefits}, "/benefits") for benefits in ([[1, 2, 3]], "words")),
        ({"feature_costs": {"height": 1}}, "/feature_costs/height"),
        ({"holdout": 1}, "/holdout"),
        ({"data": DATA | {"labels": ["ill"] * 60}}, "/data/labels"),
        ({"data": {"url": "x"}}, "/data/url"),
        ({"data": {"r/~": 1}}, "/data/r~1~0"),
        ({"modle": 1}, "/modle"),
    ],
    "/compare": [
        ({"learners": [{"kind": "logistic"}, {"kind": "oracle"}]}, "/learners/1/kind"),
        ({"learners": [{"kind": "multilabel_logistic"}]}, "/learners/0/kind"),
        (
            {"learners": [{"kind": "kernel_logistic", "majority": "well"}]},
            "/learners/0/majority",
        ),
        (
            {"learners": [{"kind": "logistic"}, {"kind": "logistic", "C": 1.0}]},
            "/learners/1",
        ),
        (
            {"benefits": [[1, 2, 3]] * 2, "learners": [{"kind": "benefit_logistic"}]},
            "/benefits/0",
        ),
    ],
    "/calibrate": [
        *(
            ({"scores": scores}, "/scores")
            for scores in (..., [1.0] * N, [-s for s in SCORES])
        ),
        ({"scores": [], "labels": []}, "/scores"),
        ({"probabilities": [[0.5, 0.5]] * N}, "/probabilities"),
        *(
            ({"scores": [*SCORES[1:], one]}, f"/scores/{N - 1}")
            for one in (None, [1.0])
        ),
        ({"scores": [[s, 0] for s in SCORES[1:]] + [[1, 2, 3]]}, f"/scores/{N - 1}"),
        ({"scores": [[s, 0] for s in SCORES[1:]] + [[1, None]]}, f"/scores/{N - 1}/1"),
        ({"classes": ["spam", "clean", "other"]}, "/scores/0"),
        ({"scores": ..., "probabilities": [[0.5, 0.6]] * N}, "/probabilities/0"),
        ({"scores": ..., "probabilities": [[0.5, 0.5]] * N}, "/probabilities"),
        *(({"labels": labels}, "/labels") for labels in (LABELS[1:], ["clean"] * N)),
        ({"labels": [*LABELS[1:], "ham"]}, f"/labels/{N - 1}"),
        (
            {
                "labels": ["clean"] * (N - 1) + ["spam"],
                "scores": [1.0] * (N - 1) + [0.0],
            },
            "/labels",
        ),
        ({"classes": [0, False]}, "/classes"),
        (
            {"classes": ["spam", "clean", "x"], "scores": [[s, 0, 1] for s in SCORES]},
            "/classes/2",
        ),
    ],
    "/datasets/from-outcomes": [
        ({"since": "soon"}, "/since"),
        ({"name": ""}, "/name"),
        ({"label": "x"}, "/label"),
    ],
    "/models/ward/replay": [
        ({"rules": ..., "since": 0}, ""),
        ({"rules": [{"rule": "beta_delta"}]}, "/rules/0/costs"),
        ({"rules": [{"threshold": 0.5}]}, "/rules/0/threshold"),
        ({"rules": [{"priors": {"ill": 1}}]}, "/rules/0/priors"),
        ({"benefits": [[0, 1]]}, "/benefits"),
    ],
    "PUT /models/ward/aliases/refused": [
        *(({"version": version}, "/version") for version in (0, 2**31)),
    ],
    "PUT /models/ward/matrices/refused": [
        *(({"benefits": benefits}, "/benefits") for benefits in (..., "words")),
        (
            {"benefits": {"ill": {"a": 1}, "healthy": {"a": 1}, "dead": {"a": 1}}},
            "/benefits/dead",
        ),
        ({"actions": ["a", "a"]}, "/actions"),
    ],
}


@pytest.fixture(scope="module")
def client(service: httpx.Client, ward: str, forest: str) -> httpx.Client:
    """With the models of the tables; `escaped` has features `a/b`, `c~d` and `e`, and the classes `x/y` and `z~`."""
    data = two_class_rows(120)
    rows = [[age, pain, pulse] for age, pulse, pain in data["rows"]]
    labels = ["x/y" if label == "ill" else "z~" for label in data["labels"]]
    escaped = {"features": ["a/b", "c~d", "e"], "rows": rows, "labels": labels}
    learner = {"kind": "random_forest", "n_estimators": 5}
    trained(
        service,
        {"model": "escaped", "learner": learner, "data": escaped, "holdout": 0.3},
    )
    return service


def done(client):
    """What refused requests must leave as it is."""
    with database_of(client) as database, database.reading() as connection:
        recorded = connection.execute(
            select(func.count()).select_from(DECISIONS)
        ).scalar_one()
    ward = client.get("/models/ward").json()
    saved = client.get("/models/ward/matrices").json()
    return (
        recorded,
        [job["id"] for job in client.get("/jobs").json()["jobs"]],
        ward["aliases"],
        saved,
    )


@pytest.mark.parametrize("route", REFUSED)
def test_bad_input_is_refused_at_its_place(client, route):
    method, path = (
        route.split(" ", 1)
        if route.startswith("PUT")
        else ("POST", route.partition(" ")[0])
    )
    before = done(client)
    for changes, place in REFUSED[route]:
        body = {
            name: value
            for name, value in (ACCEPTED[route] | changes).items()
            if value is not ...
        }
        if route == "/compare":
            body["dataset"] = uploaded(client, DATA)
        answer = client.request(method, path, json=body)

        assert answer.status_code == 422, (changes, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert place in [flaw["loc"] for flaw in answer.json()["errors"]], (
            changes,
            answer.text,
        )
    assert done(client) == before


@pytest.mark.parametrize(
    ("name", "column", "place"),
    [
        ("a/b", ["old"], "/a~1b"),
        ("c~d", [1.0], "/c~0d"),
        ("f~/", [1.0], "/f~0~1"),
        (None, [1.0], "/a~1b"),
    ],
)
def test_a_column_of_a_table_is_named_by_a_pointer(client, name, column, place):
    """Of a wrong kind, unknown, or there twice."""
    columns = {name: [value] for name, value in SLASH.items()} | (
        {name: column} if name else {}
    )
    names, values = (
        [*columns, *([] if name else ["a/b"])],
        [*columns.values(), *([] if name else [column])],
    )
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = client.post(
        "/predict?model=escaped",
        content=arrow(pa.table(values, names)),
        headers=headers,
    )

    assert (answer.status_code, [flaw["loc"] for flaw in answer.json()["errors"]]) == (
        422,
        [place],
    )
