"""Importing, as far as no process is needed: files are kept for their jobs, and another order of classes is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from app.errors import NotFound
from app.tables.model_files import ModelFiles
from app.training.import_model import check_order, clean_up_files
from payoff.errors import Invalid

RUNNING, ENDED, NEW, OLD = (f"job_{digit * 20}" for digit in "0123")


def test_files_are_kept_as_long_as_their_jobs_may_need_them(tmp_path):
    """Also the file of a job that is about to be submitted; not one that never was."""
    files = ModelFiles(str(tmp_path))
    for job in (RUNNING, ENDED, NEW, OLD):
        files.keep(job, b"model")
    files.keep(RUNNING, b"other")
    for job in (RUNNING, ENDED, OLD):
        (tmp_path / job / "uploaded_at").write_text("0")

    def get(job: str) -> SimpleNamespace:
        if job in (NEW, OLD):
            raise NotFound(job)
        return SimpleNamespace(ended=job == ENDED, finished_at=0.0)

    clean_up_files(SimpleNamespace(imports=files, queue=SimpleNamespace(get=get)))

    assert files.jobs() == [RUNNING, NEW]
    assert files.read(RUNNING) == b"model"


NAMES = ["a", "b", "c"]


def answers(order, n=300, seed=0):
    """Codes, and probabilities in the order of `NAMES` of a model whose columns were named in this order."""
    rng = np.random.default_rng(seed)
    y = rng.choice(
        len(order),
        n,
        p=np.arange(1, len(order) + 1)[::-1] / np.arange(1, len(order) + 1).sum(),
    )
    Z = rng.normal(size=(n, len(order))) + 2 * np.eye(len(order))[y]
    P = np.exp(Z)
    P /= P.sum(axis=1, keepdims=True)
    named = [order.index(name) for name in NAMES[: len(order)]]
    return P[:, named], y


@pytest.mark.parametrize(
    "order", [["b", "a"], ["b", "a", "c"], ["c", "a", "b"], ["b", "c", "a"]]
)
def test_another_order_is_refused(order):
    P, y = answers(order)
    names = NAMES[: len(order)]
    with pytest.raises(Invalid, match="another order") as caught:
        check_order(P, y, names)
    assert [flaw.loc for flaw in caught.value.flaws] == ["/classes"]


@pytest.mark.parametrize("shift", [-3.0, 0.0, 3.0])
def test_a_model_that_prefers_a_class_has_its_order(shift):
    P, y = answers(["a", "b", "c"])
    tilted = P * np.exp([shift, 0.0, 0.0])
    check_order(tilted / tilted.sum(axis=1, keepdims=True), y, NAMES)
