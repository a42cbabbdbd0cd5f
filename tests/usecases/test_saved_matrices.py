"""Requests that name a saved matrix, whatever order the classes of the model's version have."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from app.access.caller import ANYBODY
from app.errors import Invalid
from app.registry.saved_matrices import Saved
from app.usecases.matrices import read_matrix, save, with_saved
from tests.messages import says
from tests.usecases.sent import matrix_of

WORDS = {"ill": {"treat": 5, "wait": -10}, "healthy": {"treat": -1, "wait": 0}, "3": {"wait": 1, "treat": 2}}
CLASSES = ["healthy", "ill", 3]
ORDERS = (CLASSES, ["ill", 3, "healthy"], [3, "healthy", "ill"])


class Matrices:
    """The store, which keeps whatever it is given."""

    @staticmethod
    def save(model, matrix, content, who, _also):
        return Saved(model, matrix, 1, content, 0.0, who)


def kept(sent, classes=CLASSES):
    """What is saved of a request, for a model with these classes."""
    registry = MagicMock()
    registry.card.return_value.classes = list(classes)
    return save(MagicMock(registry=registry, matrices=Matrices), "triage", "autumn", sent, by=ANYBODY)


def saved(sent, classes=CLASSES):
    matrix = kept(sent, classes)
    return SimpleNamespace(matrices=SimpleNamespace(of=lambda model: {"autumn": matrix} if model == "triage" else {}))


@pytest.mark.parametrize("classes", ORDERS)
@pytest.mark.parametrize("actions", [None, ["wait", "treat"], ["treat", "wait"]])
@pytest.mark.parametrize("field", ["benefits", "cost_matrix"])
@pytest.mark.parametrize("named", [True, False])
def test_a_matrix_means_the_same_for_classes_in_any_order(classes, actions, field, named):
    sent = matrix_of(**{field: WORDS}, actions=actions)
    stated = with_saved(saved(sent), matrix_of("autumn"), "triage", classes)
    assert stated.saved == "autumn:1"
    assert stated.width() == 2
    itself, by_name = (read_matrix(each, classes, named=named) for each in (sent, stated))
    assert by_name.actions == itself.actions
    assert by_name.benefits.tolist() == itself.benefits.tolist()


def test_another_version_may_have_other_classes():
    """A challenger decides by the matrix of the request, which was named for the version that was asked."""
    stated = with_saved(saved(matrix_of(WORDS)), matrix_of("autumn"), "triage", CLASSES)
    with pytest.raises(Invalid, match="'3'"):
        read_matrix(stated, ["healthy", "ill"], named=True)


@pytest.mark.parametrize(
    ("sent", "place", "words"),
    [
        (matrix_of([[0] * 1_001] * 3, None, [f"a{i}" for i in range(1_001)]), "/actions", ("1,001", "1,000")),
        (
            matrix_of({str(name): {f"a{i}": 0 for i in range(1_001)} for name in CLASSES}),
            "/benefits",
            ("1,001", "1,000"),
        ),
        (
            matrix_of(None, {str(name): {f"a{i}": 0 for i in range(1_001)} for name in CLASSES}),
            "/cost_matrix",
            ("1,001",),
        ),
        (matrix_of([[0] * 500] * 3, None, [f"a{i:0198}" for i in range(500)]), "/benefits", ("256,000", "names")),
    ],
)
def test_a_matrix_larger_than_a_decision_needs_is_refused(sent, place, words):
    with pytest.raises(Invalid) as refused:
        kept(sent)
    [flaw] = refused.value.flaws
    assert flaw.loc == place
    assert says(flaw.msg, *words)


@pytest.mark.parametrize("classes", [["healthy", "ill"], ["healthy", "ill", 3, 4], ["healthy", "ill", 4]])
def test_other_classes_are_refused_with_the_fix(classes):
    with pytest.raises(Invalid) as refused:
        with_saved(saved(matrix_of(WORDS)), matrix_of("autumn"), "triage", classes)
    [flaw] = refused.value.flaws
    assert flaw.loc == "/benefits"
    assert says(flaw.msg, "autumn:1", "'4'" if 4 in classes else "'3'", "PUT /models/triage/matrices/autumn")
