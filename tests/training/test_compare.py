"""What a comparison makes of learners that fail, that give no probabilities, or that do not converge."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from app.tables.dataset import Table
from app.tables.features import Feature, Schema
from app.training import compare
from payoff.errors import Invalid
from payoff.learners import catalogue
from payoff.learners.base import Learner
from tests.conftest import two_class_rows


class Stub(Learner):
    """A learner whose every fit or answer goes wrong in one way, or that says that only its first fit converged."""

    fits: ClassVar = 0
    way: ClassVar = None

    def fit(self, _X, _y, _sample_weight=None, _blocks=None):
        if isinstance(self.way, Exception):
            raise self.way
        Stub.fits += 1
        self.converged_ = Stub.fits == 1

    def posterior(self, X):
        return np.full((len(X), 2), np.nan if self.way == "nan" else 0.5)


def compared(monkeypatch, *ways, with_logistic=True):
    """The result of comparing logistic, unless told otherwise, and a stub for each way."""
    data = two_class_rows(120)
    X = np.array([row[:2] for row in data["rows"]])
    y = np.array([label == "ill" for label in data["labels"]]).astype(int)
    schema = Schema((Feature("age", "number"), Feature("pulse", "number")))
    table = Table(
        schema=schema,
        X=X,
        y=y,
        classes=("healthy", "ill"),
        labels=("label",),
        digest="",
    )
    learners = [
        {
            "kind": "logistic",
            "parameters": catalogue.resolve({"kind": "logistic"}).parameters,
        }
    ] * with_logistic
    Stub.fits = 0
    for i, way in enumerate(ways):
        kind = type(f"Stub{i}", (Stub,), {"name": f"stub{i}", "way": way})
        monkeypatch.setitem(catalogue.KINDS, f"stub{i}", kind)
        learners.append({"kind": f"stub{i}", "parameters": {}})
    done = {}
    dataset = SimpleNamespace(forms={}, rows=len(y), columns=(), kept={})
    stores = SimpleNamespace(
        datasets=SimpleNamespace(table=lambda *_: table, find=lambda _: dataset),
        database=SimpleNamespace(writing=nullcontext),
        queue=SimpleNamespace(succeed=lambda _, __, result: done.update(result)),
    )
    spec = {
        "dataset": "d",
        "learners": learners,
        "benefits": [[0.0, -1.0], [-10.0, 5.0]],
        "folds": 3,
        "seed": 0,
    }
    compare.run(stores, SimpleNamespace(dataset=None, spec=spec))
    return done


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (Invalid.at("/C", "C is too large"), "C is too large"),
        (np.linalg.LinAlgError("singular"), "the fit broke down (singular)"),
        (OverflowError("too large"), "the fit broke down (too large)"),
        ("nan", "no usable probabilities"),
    ],
)
def test_a_learner_that_fails_does_not_spoil_the_others(monkeypatch, way, reason):
    """It is listed with the reason, and warned about; the others have their rows."""
    result = compared(monkeypatch, way)
    good, bad = result["learners"]

    assert reason in bad["error"]
    assert (bad["fit_seconds"], bad["converged"]) == (None, None)
    assert good["error"] is None
    assert {row["learner"] for row in result["table"]} == {"logistic", None}
    assert any(
        warning.startswith("stub0 is left out") and reason in warning
        for warning in result["warnings"]
    )


def test_where_none_is_left_the_job_fails_with_all_reasons(monkeypatch):
    """Each at its place in the order."""
    with pytest.raises(Invalid) as error:
        compared(
            monkeypatch,
            Invalid.at("/C", "bad"),
            Invalid.at("/benefits/0", "odd"),
            "nan",
            with_logistic=False,
        )

    assert [flaw.loc for flaw in error.value.flaws] == [
        "/learners/0/C",
        "/benefits/0",
        "/learners/2",
    ]
    assert "stub0: bad; stub1: odd; stub2: " in error.value.detail


def test_a_fault_of_ours_is_not_the_learners(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        compared(monkeypatch, ZeroDivisionError())


def test_fits_that_did_not_converge_are_told(monkeypatch):
    """Fold by fold in the list, and in a warning."""
    result = compared(monkeypatch, "fine")

    assert result["learners"][0]["converged"] == [True, True, True]
    assert result["learners"][1]["converged"] == [True, False, False]
    assert "stub0: 2 of 3 fits did not converge" in result["warnings"]
    assert not any("logistic:" in warning for warning in result["warnings"])


def test_one_action_for_all_closes_the_table(monkeypatch):
    """It needs no learner; where it is not beaten, a warning says so."""
    result = compared(monkeypatch, "fine", with_logistic=False)
    last = result["table"][-1]

    assert (last["learner"], last["rule"]) == (None, "same_for_all")
    assert last["benefit"] == result["same_for_all"]["benefit"]
    assert any("no model is worth using" in warning for warning in result["warnings"])
    assert not any(
        "no model is worth using" in warning
        for warning in compared(monkeypatch)["warnings"]
    )
