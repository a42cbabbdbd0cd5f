"""Expected and realised losses of sets of labels on the hold-out, and what follows from their difference."""

from dataclasses import replace

import numpy as np
import pytest

from app.answering.retrieve import retrieve, retrieve_with
from app.answering.set_losses import holdout_losses, set_losses
from app.registry.loaded import Holdout, Loaded
from app.requests.losses import RetrieveFields, Sets
from payoff.retrieval.losses import Loss, SetTerms
from tests.reference.losses import fractional_linear
from tests.registry.making import make_card

F1 = Loss("f_beta")


def exclusive(rows, seed=0):
    """Three labels of which exactly one applies, each with its true probability: they are not independent."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.6, 0.6, 0.6], rows)
    return P, np.eye(3, dtype=np.int64)[
        (P.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(0, 2)
    ]


def independent(rows, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.random((rows, 3))
    return P, (rng.random(P.shape) < P).astype(np.int64)


@pytest.mark.parametrize("name", ["f_beta", "jaccard", "g_mean"])
@pytest.mark.parametrize("empty", [0, 1])
def test_losses_are_those_of_the_sets_that_are_chosen(name, empty):
    """Row by row: the choice by the use case, the loss by its definition."""
    P, Y = independent(30)
    P[3], Y[3] = 0, 0
    expected, realised = [], []
    for p, y in zip(P, Y, strict=True):
        choice = retrieve(
            Sets(p), RetrieveFields(setting="binary", loss={"name": name}, empty=empty)
        ).choice
        expected.append(choice.figures[0, 0])
        hits = y[choice.selected].sum()
        realised.append(
            float(Loss(name).of_counts(hits, choice.k[0], y.sum(), 3, empty=empty))
        )
    found = set_losses(P, Y, SetTerms(Loss(name), empty=empty))
    gap = np.array(realised) - np.array(expected)

    assert found.rows == 30
    assert found.expected == pytest.approx(np.mean(expected), abs=1e-12)
    assert found.realised == pytest.approx(np.mean(realised), abs=1e-12)
    assert found.standard_error == pytest.approx(
        gap.std(ddof=1) / np.sqrt(30), abs=1e-12
    )


@pytest.mark.parametrize("name", ["f_beta", "jaccard", "am", "g_mean"])
def test_the_correction_is_right_on_rows_that_it_was_not_made_of(name):
    """Labels that exclude one another: what 400 rows add to the promise leaves less than half of its error."""
    terms = SetTerms(Loss(name))
    new = set_losses(*exclusive(2000, 100), terms)
    gap = new.realised - new.expected
    left = [
        abs(set_losses(*exclusive(400, seed), terms).correction - gap)
        for seed in range(20)
    ]

    assert np.mean(left) < abs(gap) / 2


def test_independent_labels_are_hardly_ever_warned_about():
    """Two standard errors: in about one of twenty samples; a difference below one standard error corrects nothing."""
    found = [set_losses(*independent(300, seed), SetTerms(F1)) for seed in range(100)]

    assert sum(one.warning is not None for one in found) <= 12
    assert sum(one.correction == 0 for one in found) >= 50
    assert all(abs(one.correction) <= abs(one.realised - one.expected) for one in found)


def test_losses_of_any_magnitude_give_an_answer():
    """Squares of such losses are beyond the floats: then nothing is known about noise."""
    huge = fractional_linear([1e100, -1e100, 0, 0], [1e-100, 0, 0, 0])

    assert set_losses(*exclusive(400), SetTerms(huge)).correction is None


class _Known:
    def posterior(self, X):
        return X


def model(P, Y):
    card = make_card(
        classes=["a", "b", "c"],
        labels=["a", "b", "c"],
        class_priors={},
        learner={"kind": "x"},
    )
    return Loaded(card, card.schema_of_features(), _Known(), Holdout(P, Y))


def test_an_answer_warns_once_and_its_sets_stay_the_same():
    P, Y = exclusive(400)
    question = RetrieveFields(setting="multilabel", loss={"name": "jaccard"})
    plain = retrieve_with(model(P[:10], Y[:10]), P, question, [])
    corrected = retrieve_with(model(P, Y), P, question, ["told"])

    assert corrected.correction == set_losses(P, Y, question.terms).correction
    assert corrected.warnings[0] == "told"
    assert len(corrected.warnings) == 2
    assert "400 rows" in corrected.warnings[1]
    np.testing.assert_array_equal(corrected.choice.selected, plain.choice.selected)
    np.testing.assert_array_equal(corrected.choice.figures, plain.choice.figures)


@pytest.mark.parametrize("rows", [0, 10, 199])
def test_too_few_rows_for_a_correction_are_warned_about(rows):
    P, Y = exclusive(400)
    small = model(P[:rows], Y[:rows]) if rows else replace(model(P, Y), holdout=None)
    answer = retrieve_with(
        small,
        P,
        RetrieveFields(setting="multilabel", loss={"name": "jaccard"}),
        ["told"],
    )

    assert answer.correction is None
    assert answer.warnings[0] == "told"
    assert answer.warnings[1].endswith(
        f"no 'correction': it takes 200 rows held out, and {rows} could be used"
    )


def test_terms_that_the_hold_out_cannot_meet_correct_nothing():
    find = model(*exclusive(400)).once(holdout_losses)

    assert find(SetTerms(F1, k_min=99)) is None
    assert find(SetTerms(F1)) is find(SetTerms(F1))
