"""Outcomes over HTTP: as JSON and as tables, by keys for some models, corrected, and erased."""

import resource
from time import time
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import select

from app.access.caller import Caller, Scope
from app.answering import outcomes as usecase
from app.api.codecs.media_types import ARROW, CSV, PARQUET
from app.api.exchange import Exchange
from app.api.limiters import Limiter
from app.api.memory import VALUE
from app.outcomes.decision import DAY, Terms, id_digest, new_ids
from app.outcomes.rows import SealedFile
from app.outcomes.sealed import SealedFiles
from app.outcomes.tables import OUTCOMES, SEALED_FILES
from tests.api.callers import ask, called_by
from tests.api.column_bodies import WRITERS
from tests.messages import says
from tests.outcomes.records import decided

BANK = Caller("bank")
MADE = 1_767_225_600.0
GRADES = Terms("predict", "grades", 3, "most_probable", (1, 2, 3), (1, 2, 3))
ODD = Terms(
    "predict",
    "odd",
    1,
    "expected_benefit",
    ("NA", "b"),
    ("None", "wait"),
    ((0.0, 1.0), (1.0, 0.0)),
)


@pytest.fixture(scope="module")
def database(wired):
    decided(wired.stores.database, 1, ids=["first"])
    return wired.stores.database


def post(app, outcomes, caller=BANK, **more):
    return ask(
        called_by(app, caller), "POST", "/outcomes", json={"outcomes": outcomes} | more
    )


def sent_table(app, kind, content, **query):
    return ask(
        called_by(app),
        "POST",
        "/outcomes",
        content=content,
        headers={"Content-Type": kind},
        params=query,
    )


def kept(database, *ids):
    table = OUTCOMES.c
    with database.reading() as connection:
        found = connection.execute(select(OUTCOMES).where(table.id.in_(ids)))
        return {row.id: (row.truth, row.action, row.benefit, row.at) for row in found}


def test_outcomes_are_taken_in_and_repeated(app, database):
    a, b, c = decided(database, 3, at=MADE)
    outcomes = [
        {"id": a, "truth": "bad", "at": "2026-03-01T12:00:00Z"},
        {"id": b, "truth": "good", "action": "grant", "benefit": 0.7, "at": 1772366500},
        {"id": c, "truth": "good", "at": "2026-03-01T14:00:00+02:00"},
        {"id": "nobody", "truth": "anything"},
    ]

    first, again = post(app, outcomes), post(app, outcomes[::-1])

    assert first.status_code == 200, first.text
    assert first.json() == {
        "accepted": 3,
        "unchanged": 0,
        "open": 0,
        "unknown": ["nobody"],
        "conflicts": [],
    }
    assert again.json() == {
        "accepted": 0,
        "unchanged": 3,
        "open": 0,
        "unknown": ["nobody"],
        "conflicts": [],
    }
    noon = 1772366400.0
    assert kept(database, a, b, c) == {
        a: (0, None, None, noon),
        b: (1, 1, 0.7, 1772366500.0),
        c: (1, None, None, noon),
    }


def test_a_conflict_is_answered_and_a_correction_is_audited(app, wired):
    ids = decided(wired.stores.database, 30)
    post(app, [{"id": id_, "truth": "bad"} for id_ in ids])
    other = {"id": ids[0], "truth": "good", "action": "refuse"}

    refused = post(app, [other]).json()
    assert refused["conflicts"] == [
        {
            "id": ids[0],
            "stored": {"truth": "bad"},
            "sent": {"truth": "good", "action": "refuse"},
        }
    ]
    assert wired.stores.audit.page(1, None)[0] == []

    corrected = post(
        app, [{"id": id_, "truth": "good"} for id_ in ids], correct=True
    ).json()
    assert (corrected["accepted"], corrected["conflicts"]) == (30, [])
    (entry,) = wired.stores.audit.page(5, None)[0]
    assert (entry.who, entry.action, entry.subject) == (
        "bank",
        "outcomes.correct",
        "loan",
    )
    assert entry.details["count"] == 30
    assert set(entry.details["id_digests"]) < set(map(id_digest, ids))
    post(app, [{"id": ids[0], "truth": "good"}], correct=True)
    assert len(wired.stores.audit.page(5, None)[0]) == 1


def test_models_of_other_keys_are_unknown(app, database):
    loan, grade = decided(database, 1) + decided(database, 1, terms=GRADES)
    outcomes = [{"id": loan, "truth": "bad"}, {"id": grade, "truth": 2}]

    answer = post(
        app,
        outcomes,
        Caller("school", scopes=frozenset({Scope.PREDICT}), models=("grade*",)),
    )

    assert answer.json() == {
        "accepted": 1,
        "unchanged": 0,
        "open": 0,
        "unknown": [loan],
        "conflicts": [],
    }
    assert kept(database, loan, grade) == {grade: (1, None, None, None)}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"truth": "ugly"}, says("/outcomes/1/truth", "unknown class 'ugly'")),
        ({"action": "bad"}, says("/outcomes/1/action", "unknown action 'bad'")),
        ({"benefit": 1e200}, says("/outcomes/1/benefit", "at most 1e+100")),
        ({"benefit": "much"}, says("/outcomes/1/benefit", "number")),
        ({"benefit": True}, says("/outcomes/1/benefit", "number")),
        ({"at": "yesterday"}, says("/outcomes/1/at", "ISO 8601")),
        ({"at": -1}, says("/outcomes/1/at", "1970")),
        ({"at": "9999-12-31T23:59:59-20:00"}, says("/outcomes/1/at", "future")),
        ({"truth": []}, says("/outcomes/1/truth", "integer", "string")),
        ({"truth": 1.5}, says("/outcomes/1/truth", "unknown class '1.5'")),
        ({"id": ""}, says("/outcomes/1/id", "1 to 128")),
        ({"id": "x" * 129}, says("/outcomes/1/id", "1 to 128")),
        ({"id": None}, says("/outcomes/1/id", "string")),
        ({"when": 1}, says("/outcomes/1/when", "unknown field")),
        ({"id": "first", "truth": "good"}, says("/outcomes/1/id", "comes twice")),
    ],
)
def test_what_does_not_fit_is_refused_at_its_place_and_nothing_is_stored(
    app, database, changes, error
):
    (id_,) = decided(database, 1)

    answer = post(
        app, [{"id": "first", "truth": "bad"}, {"id": id_, "truth": "bad"} | changes]
    )

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"] == [error]
    assert kept(database, "first", id_) == {}


FRAME = {
    "truth": ["bad", "good", "good"],
    "action": ["grant", None, "refuse"],
    "benefit": [1.5, None, -2.0],
    "at": ["2026-03-01T12:00:00Z", None, "1772366500"],
}
EXPECTED = [
    (0, 1, 1.5, 1772366400.0),
    (1, None, None, None),
    (1, 0, -2.0, 1772366500.0),
]


def sent_as(app, kind, table, **query):
    return sent_table(app, kind, WRITERS[kind](pa.table(table)), **query)


@pytest.mark.parametrize("kind", WRITERS)
def test_tables(app, database, kind):
    ids = decided(database, 3, at=MADE)
    answer = sent_as(app, kind, {"id": ids} | FRAME)
    assert answer.json() == {
        "accepted": 3,
        "unchanged": 0,
        "open": 0,
        "unknown": [],
        "conflicts": [],
    }, answer.text
    found = kept(database, *ids)
    assert [found[id_] for id_ in ids] == EXPECTED

    other = {"id": ids} | FRAME | {"truth": ["good", "good", "good"]}
    assert len(sent_as(app, kind, other).json()["conflicts"]) == 1
    assert sent_as(app, kind, other, correct="true").json()["accepted"] == 1
    assert kept(database, ids[0])[ids[0]][0] == 1


def test_columns_of_other_types(app, database):
    """As pandas has them: integers beside missing values are floats, times are timestamps."""
    decided(database, 2, ids=["1", "2"], terms=GRADES, at=MADE)
    times = pa.array([1772366400 * 1000, None], pa.timestamp("ms", "Europe/Berlin"))
    table = {
        "id": [1, 2],
        "truth": [3, 1],
        "action": [2.0, None],
        "at": times,
        "benefit": [1, 2],
    }

    assert [sent_as(app, kind, table).status_code for kind in WRITERS] == [200] * 3
    assert kept(database, "1", "2") == {
        "1": (2, 1, 1.0, 1772366400.0),
        "2": (0, None, 2.0, None),
    }


def test_integers_and_words_for_missing_values_are_ids_and_classes(app, database):
    decided(database, 1, ids=["4711"], terms=GRADES)
    decided(database, 2, ids=["NA", "null"], terms=ODD)

    assert post(app, [{"id": 4711, "truth": 3, "action": 1}]).json()["accepted"] == 1
    assert (
        post(app, [{"id": "4711", "truth": "3", "action": "1"}]).json()["unchanged"]
        == 1
    )
    assert (
        post(app, [{"id": "4711", "truth": " 3", "action": "1 "}]).json()["unchanged"]
        == 1
    )
    assert (
        sent_table(app, CSV, "id,truth,action\nNA,NA,None\nnull,b,NA\n").json()[
            "accepted"
        ]
        == 2
    )
    assert kept(database, "NA", "null") == {
        "NA": (0, 0, None, None),
        "null": (1, None, None, None),
    }


KNOWN = {"id": ["a"], "truth": ["bad"]}
FLAWS = [  # CSV, in which `x` is a decision, or the columns of an Arrow stream
    ("id,truth\nx,ugly\n", says("/truth/0", "unknown class 'ugly'")),
    ("id,truth\n,bad\nx,bad\n", says("/id/0", "'id' is missing")),
    ("id,truth,at\nx,bad,soon\n", says("/at/0", "ISO 8601")),
    ("id,truth,benefit\nx,bad,much\n", says("/benefit", "'much'")),
    ("id,truth,colour\nx,bad,red\n", says("/colour", "unknown column 'colour'")),
    ("id\nx\n", says("", "'truth' or 'benefit' is missing")),
    ("id,truth\n", says("", "at least one outcome")),
    (KNOWN | {"id": ["a\0b"]}, "/id/0"),
    (KNOWN | {"id": [b"\xff"]}, "/id"),
    (KNOWN | {"id": [["a"]]}, "/id"),
    (KNOWN | {"truth": [True]}, "/truth"),
    (KNOWN | {"benefit": ["1"]}, "/benefit"),
    (KNOWN | {"benefit": [float("inf")]}, "/benefit/0"),
    (KNOWN | {"at": [True]}, "/at"),
]


@pytest.mark.parametrize(("table", "error"), FLAWS)
def test_flaws_of_tables_have_their_place(app, database, table, error):
    if isinstance(table, str):
        answer = sent_table(
            app, CSV, table.replace("\nx", f"\n{decided(database, 1)[0]}")
        )
    else:
        answer = sent_as(app, ARROW, table)
    assert answer.status_code == 422
    (found,) = answer.json()["errors"]
    assert error == (found["loc"] if isinstance(error, str) else found)


def test_open_cases_are_counted_and_the_others_of_the_request_stored(app, database):
    """Their actions and benefits wait for the truth, too; NA is open where no class is called so."""
    ids, odd = decided(database, 4), decided(database, 1, terms=ODD)[0]
    known = {
        "truth": ["bad", None, None, "good"],
        "action": ["grant", "refuse", None, None],
    }
    for kind in WRITERS:
        answer = sent_as(app, kind, {"id": ids} | known).json()
        assert (
            answer["accepted"] + answer["unchanged"],
            answer["open"],
            answer["unknown"],
        ) == (
            2,
            2,
            [],
        )
    rows = [
        {"id": id_, "truth": truth}
        for id_, truth in zip(ids, known["truth"], strict=True)
    ]
    assert post(app, rows).json() == {
        "accepted": 0,
        "unchanged": 2,
        "open": 2,
        "unknown": [],
        "conflicts": [],
    }
    for id_, found in ((ids[1], "open"), (odd, "accepted")):
        assert sent_table(app, "text/csv", f"id,truth\n{id_},NA\n").json()[found] == 1
    assert set(kept(database, *ids)) == {ids[0], ids[3]}
    missing = post(app, [{"id": ids[1], "action": "grant"}])
    assert missing.json()["errors"] == [says("/outcomes/0/truth", "required")]


@pytest.mark.parametrize("missing", ["", "NA", "null"])
@pytest.mark.parametrize("first", [True, False])
def test_a_case_may_be_open_and_known_in_one_file(app, database, missing, first):
    """A file of all cases has both lines where the truth came later; a word for missing is like an empty cell."""
    a, b = decided(database, 2)
    lines = [
        f"{a},{missing},grant",
        f"{a},bad,grant",
        f"{b},good,{missing}",
        f"{b},good,",
        "x,NA,",
        "x,bad,",
        "x,bad,",
    ]
    table = "\n".join(["id,truth,action", *(lines if first else lines[::-1])])

    answer = sent_table(app, "text/csv", table).json()

    assert answer == {
        "accepted": 2,
        "unchanged": 0,
        "open": 1,
        "unknown": ["x"],
        "conflicts": [],
    }
    assert sent_table(app, "text/csv", table + f"\n{a},good,\n").json()["errors"] == [
        says("/id/7", "comes twice")
    ]
    assert sent_table(app, "text/csv", f"{table}\nx,good,\n").json()["errors"] == [
        says("/id/7", "comes twice")
    ]


@pytest.mark.parametrize(
    ("at", "error"),
    [
        (lambda: MADE - 301, "before the decision"),
        (lambda: MADE - 299, None),
        (lambda: MADE, None),
        (lambda: time() - 1, None),
        (lambda: time() + 240, None),
        (lambda: time() + 3_600, "future"),
        (lambda: MADE * 1_000, "future"),  # milliseconds
    ],
)
def test_a_truth_is_known_after_the_decision_and_not_in_the_future(
    app, database, at, error
):
    at = at()
    (id_,) = decided(database, 1, at=MADE)
    answer = post(app, [{"id": id_, "truth": "bad", "at": at}])
    if error is None:
        assert answer.status_code == 200
        assert kept(database, id_)[id_][3] == at
    else:
        assert answer.json()["errors"] == [says("/outcomes/0/at", error)]
        assert kept(database, id_) == {}


ADMIN = Caller("dpo")


def erased(app, id_, caller=ADMIN):
    return ask(called_by(app, caller), "DELETE", f"/outcomes/{id_}")


@pytest.mark.parametrize("id_", ["visit/7", "né à 8 %"])
def test_a_decision_is_erased_and_audited_without_its_id(app, wired, id_):
    database = wired.stores.database
    decided(database, 1, ids=[id_])
    post(app, [{"id": id_, "truth": "bad"}])
    path = quote(id_, safe="")

    assert erased(app, path, Caller("school", models=("grade*",))).status_code == 404
    assert erased(app, path).status_code == 204
    assert erased(app, path).status_code == 404
    assert post(app, [{"id": id_, "truth": "bad"}]).json()["unknown"] == [id_]
    assert kept(database, id_) == {}
    entry = wired.stores.audit.page(1, None)[0][0]
    assert (entry.who, entry.action, entry.subject, entry.details) == (
        "dpo",
        "decision.erase",
        id_digest(id_),
        {},
    )


def test_what_is_no_id_is_not_found(app):
    assert {
        erased(app, id_).status_code for id_ in ("nobody", "x" * 200, "%00", "a%01")
    } <= {
        404,
        422,
    }


BOMBS = ["id", "truth", "action", "benefit", "at"]
LONG = "x" * 100_000


def bomb(column, rows, word):
    """`rows` rows, in which `column` has the same value each time."""
    plain = {"id": "a", "truth": "ill"}
    values = plain | {column: 1.5 if column == "benefit" else word}
    once = np.zeros(rows, dtype=np.int32)
    return pa.table({name: pa.DictionaryArray.from_arrays(once, [value]) if type(value) is str
                     else pa.array([value] * rows) for name, value in values.items()})  # fmt: skip


@pytest.mark.parametrize("column", BOMBS)
@pytest.mark.parametrize("kind", WRITERS)
def test_a_small_table_cannot_stand_for_more_outcomes_than_a_request_may_have(
    app, monkeypatch, kind, column
):
    monkeypatch.setattr(usecase, "MAX_OUTCOMES", 1000)

    answer = sent_as(app, kind, bomb(column, 1001, "a"))

    assert answer.status_code == 413, answer.text
    assert "1,001" in answer.json()["detail"]


@pytest.mark.parametrize("column", [name for name in BOMBS if name != "benefit"])
@pytest.mark.parametrize("kind", WRITERS)
def test_long_text_that_repeats_is_refused_before_it_is_spelt_out(app, kind, column):
    body = WRITERS[kind](
        bomb(column, 20 if kind == CSV else 50_000, LONG)
    )  # the others write a word once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = sent_table(app, kind, body)

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"] == [says(f"/{column}/0", "at most")]
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    )  # kB; spelt out it is ten times that


@pytest.mark.parametrize("kind", [ARROW, PARQUET])
def test_what_a_table_is_spelt_out_to_is_charged(app, monkeypatch, kind):
    """Short words, too, are more than the body: 50,000 ids of 500 bytes."""
    charged = []
    monkeypatch.setattr(
        Exchange, "charge", lambda _, count, each=VALUE: charged.append(count * each)
    )
    sent_as(app, kind, bomb("id", 50_000, "\U0001f600" * 125))
    assert sum(charged) > 50_000 * 500


def note(function, calls):
    def noted(*args, **options):
        calls.append(args)
        return function(*args, **options)

    return noted


def test_ids_of_many_days_open_few_files(app, wired, monkeypatch):
    """Those of models that the key is for, in the threads for long work, and no more than a bound."""
    with wired.stores.database.writing() as connection:
        files = [
            SealedFile(f"{model}/{day}", model, day, "decisions", 0.0)._asdict()
            for model in ("loan", "grades")
            for day in range(500)
        ]
        connection.execute(SEALED_FILES.insert().values(is_current=True), files)
    opened, long = [], []
    monkeypatch.setattr(
        SealedFiles, "find", lambda _, file, *__: opened.append(file.model) or []
    )
    monkeypatch.setattr(Limiter, "run", note(Limiter.run, long))
    school = Caller("school", models=("grade*",))

    try:
        for days, caller, status, files in (
            (300, school, 200, 300),
            (401, school, 422, 0),
            (201, BANK, 422, 0),
        ):
            opened.clear()
            ids = [new_ids(1, DAY * (day + 0.5))[0] for day in range(days)]
            answer = post(app, [{"id": id_, "truth": "bad"} for id_ in ids], caller)
            assert (answer.status_code, opened) == (status, ["grades"] * files)
            assert status == 200 or "send fewer days" in answer.json()["detail"]
        assert [limiter for limiter, *_ in long].count(
            app.state.service.limiters.long
        ) == 3
    finally:
        with wired.stores.database.writing() as connection:
            connection.execute(SEALED_FILES.delete().where(SEALED_FILES.c.day < 500))
