"""The use case: sets in, choices out, with every figure and as JSON; comparisons; what is refused, and where."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answering import retrieve as usecase
from app.answering.retrieve import Retrieved, retrieve, retrieve_with
from app.api.bodies import checked
from app.api.codecs.sets import to_json
from app.errors import Conflict
from app.registry.loaded import Holdout, Loaded
from app.requests.losses import FIGURES, SAMPLED, RetrieveFields, Sets
from payoff.errors import Invalid, TooLarge
from payoff.retrieval.losses import LOSSES as TABLE
from payoff.retrieval.losses import Loss
from payoff.retrieval.selection import Selections, seconds
from tests.reference.retrieval import expected_of_all_sets, outcomes
from tests.registry.making import make_card

LOSSES = [name for name in TABLE if name not in ("auc", "fractional_linear")]
RAGGED = Sets(
    np.array([0.9, 0.4, 0.35, 0.6, 0.2, 0.2, 0.1, 0.8]), np.array([0, 3, 3, 7, 8])
)


def ask(**changes) -> RetrieveFields:
    return checked(
        RetrieveFields, {"setting": "multilabel", "loss": {"name": "f_beta"}, **changes}
    )


def split(choice: Selections) -> list[list[int]]:
    return [
        part.tolist() for part in np.split(choice.selected, np.cumsum(choice.k)[:-1])
    ]


def figure(choice: Selections, name: str) -> np.ndarray:
    return choice.figures[FIGURES.index(name)]


def row_of(sets: np.ndarray, selected: list[int]) -> int:
    """Where a set of positions stands among all sets."""
    wanted = np.isin(np.arange(sets.shape[1]), selected)
    return int(np.flatnonzero((sets == wanted).all(axis=1))[0])


groups = st.lists(
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.5001, 0.7, 1.0]), max_size=4),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25, deadline=None)
@given(groups, st.sampled_from(LOSSES), st.integers(0, 1))
def test_every_set_equals_enumeration(lists, name, empty):
    """Ragged sets, some empty: the loss, precision and recall said are those of the set chosen, and none is better."""
    sets = Sets(
        np.array(list(chain.from_iterable(lists)), dtype=float),
        np.cumsum([0, *map(len, lists)]),
    )
    answer = retrieve(sets, ask(loss={"name": name}, empty=empty, curve=True))
    choice, at = answer.choice, 0
    for i, (p, selected) in enumerate(zip(lists, split(choice), strict=True)):
        every, losses, recall, precision = expected_of_all_sets(
            *outcomes(p), Loss(name), empty=empty
        )
        row = row_of(every, selected)
        assert figure(choice, "expected_loss")[i] == pytest.approx(
            losses[row], abs=1e-12
        )
        assert figure(choice, "expected_recall")[i] == pytest.approx(
            recall[row], abs=1e-12
        )
        assert figure(choice, "expected_precision")[i] == pytest.approx(
            precision[row], abs=1e-12
        )
        curve = choice.curves[at : at + choice.lengths[i]]
        at += choice.lengths[i]
        assert len(curve) == len(p) + 1
        assert curve[len(selected)] == pytest.approx(losses[row], abs=1e-12)
        assert losses[row] <= losses.min() + 1e-12
    assert at == len(choice.curves)


@dataclass
class Echo:
    """An estimator whose probabilities are its features."""

    def posterior(self, X: np.ndarray) -> np.ndarray:
        return X


def model_of(
    classes: list, holdout: Holdout | None = None, *, several: bool = False
) -> Loaded:
    priors = {str(name): 1 / len(classes) for name in classes}
    card = make_card(
        classes=classes, labels=classes if several else ["label"], class_priors=priors
    )
    return Loaded(card, card.schema_of_features(), Echo(), holdout)


def near_vectors(several: int, cut: float = 0.05, work: int = 0) -> Loaded:
    """A model whose neighbours have one of `several` labels each, for its probabilities are its features."""

    class Near(Echo):
        neighbours_ = None

        def label_vectors(
            self, X: np.ndarray
        ) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
            return (
                (np.eye(several, dtype=np.uint8), np.full(several, 1 / several), cut)
                for _ in X
            )

        def label_vector_work(self, _X: np.ndarray) -> int:
            return work

    return replace(
        model_of([str(i) for i in range(several)], several=True), estimator=Near()
    )


@pytest.mark.parametrize(
    ("model", "changes", "place"),
    [
        (model_of(["a", "b"]), {"setting": "multilabel"}, "/setting"),
        (model_of(["a", "b"], several=True), {"setting": "binary"}, "/positive"),
        (
            model_of(["a", "b"], several=True),
            {"setting": "binary", "positive": "c"},
            "/positive",
        ),
        (model_of(["a", "b"], several=True), {"setting": "multiclass"}, "/setting"),
        (model_of(["a", "b", "c"]), {"setting": "binary"}, "/positive"),
        (
            model_of(["a", "b", "c"]),
            {"setting": "binary", "positive": "a", "average": "macro"},
            "/average",
        ),
        (near_vectors(3), {"method": "sampled", "average": "macro"}, "/average"),
        (model_of(["a", "b"]), {"setting": "binary", "positive": "c"}, "/positive"),
        (model_of(["a", "b"]), {"setting": "multiclass", "positive": "a"}, "/positive"),
        (model_of(["a", "b"]), {"setting": "multiclass", "k_min": 3}, "/k_min"),
        (
            model_of(["a", "b"]),
            {"setting": "multiclass", "method": "sampled"},
            "/method",
        ),
        (model_of(["a", "b"], several=True), {"method": "sampled"}, "/method"),
        (
            near_vectors(3),
            {"method": "sampled", "setting": "binary", "positive": "1"},
            "/method",
        ),
        (near_vectors(3), {"method": "sampled", "curve": True}, "/curve"),
        (model_of(["a", "b"], several=True), {}, "/instances/1"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_by_place(model, changes, place):
    """And so is an instance without probabilities."""
    X = np.array([[0.5, 0.5, 0][: len(model.classes)]] * 2)
    X[1, 0] = np.nan if place == "/instances/1" else 0.5
    with pytest.raises((Invalid, Conflict)) as error:
        retrieve_with(model, X, ask(**changes), [])
    assert [flaw.loc for flaw in error.value.flaws] == [place]


def test_sampled_sets_are_chosen_on_label_vectors():
    """The weights move to the model's probabilities; of what was cut there is a warning, of the others a figure."""
    X = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    asked = ask(method="sampled", loss={"name": "jaccard"}, marginals=True)
    answer = retrieve_with(near_vectors(3), X, asked, ["a note"])

    assert split(answer.choice) == [[0], [2]]
    assert answer.choice.figures[SAMPLED.index("expected_loss")] == pytest.approx(
        [0.5, 0.3], abs=1e-5
    )
    assert answer.choice.figures[SAMPLED.index("vectors")] == pytest.approx(
        [1 / 0.38, 1 / 0.54], abs=1e-4
    )
    assert (answer.choice.figures[SAMPLED.index("gap")] == 0).all()
    assert answer.marginals.p == pytest.approx(X.ravel(), abs=1e-5)
    assert answer.warnings[0] == "a note"
    assert "5.0%" in answer.warnings[1]
    assert "gap" not in answer.warnings[1]
    assert answer.correction is None


@pytest.mark.parametrize(
    ("rows", "labels", "work", "words"),
    [
        (1, 101, 0, ("1", "101", "100", "20,000")),
        (5001, 4, 0, ("5,001", "4", "100", "20,000")),
        (1, 3, 20_000_001, ("20,000,001 training rows",)),
    ],
    ids=["labels", "instances", "crowded leaves"],
)
def test_sampled_sets_are_limited(rows, labels, work, words):
    with pytest.raises(TooLarge) as error:
        retrieve_with(
            near_vectors(labels, work=work),
            np.ones((rows, labels)),
            ask(method="sampled"),
            [],
        )
    assert all(word in error.value.detail for word in words)


def test_where_much_weight_is_cut_the_gap_is_unknown():
    """Null in every form of answer: the best set on all label vectors may be another one."""
    answer = retrieve_with(
        near_vectors(3, 0.125),
        np.full((2, 3), 0.3),
        ask(method="sampled", marginals=True),
        [],
    )
    assert np.isnan(answer.choice.figures[SAMPLED.index("gap")]).all()
    (warning,) = answer.warnings
    assert "up to 12.5% is left out" in warning
    assert warning.endswith(
        "; 'gap' is null for 2 instances with more than 10% left out"
    )
    sets = json.loads(to_json(answer, {"warnings": []}).body)["sets"]
    assert [one["gap"] for one in sets] == [None, None]


WIDE = {"name": "fractional_linear", "c": [1, -1, 0, 0], "d": [1, 1e19, 0, 0]}


@pytest.mark.parametrize(
    ("loss", "sets", "items", "more"),
    [
        (WIDE, 7000, 65, {}),
        (WIDE, 1, 4_000_000, {}),
        ({"name": "g_mean"}, 300, 1000, {"curve": True}),
    ],
)
def test_the_work_of_all_sets_together_is_limited(loss, sets, items, more):
    """A thousand sets of 1,000 items took 45 s with the curve of G-Mean, and each alone was allowed."""
    many = Sets(np.full(sets * items, 0.3), np.arange(sets + 1) * items)
    with pytest.raises(
        TooLarge, match=f"core with the loss '{loss['name']}'; at most 10"
    ):
        retrieve(many, ask(loss=loss, **more))
    assert retrieve(
        Sets(many.p[: 2 * items], many.offsets[:3]) if sets > 2 else RAGGED,
        ask(loss=loss, **more),
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_as_many_items_as_a_request_may_hold_are_no_more_work_than_it_may_ask_for(loss):
    """Except MCC of long lists, and G-Mean and H-Mean, whose laws are longer, of lists too long for a batch."""
    for size in (20, 64, 1000, 20_000_000):
        if (
            size < 1000
            or loss not in ("g_mean", "h_mean", "mcc")
            or (size > 1000 and loss != "mcc")
        ):
            sizes = np.full(20_000_000 // size, size)
            needed = seconds(sizes, sizes * 0.2, ask(loss={"name": loss}).terms)
            assert needed <= usecase.MAX_SECONDS


LABELS = tuple(f"label {i}" for i in range(400))


def answered(
    sizes: list[int],
    *,
    curve: bool,
    marginals: bool,
    sampled: bool,
    labels: tuple[str, ...] | None,
) -> Retrieved:
    rng = np.random.default_rng(len(sizes))
    k = np.array([int(rng.integers(size + 1)) for size in sizes], dtype=np.int64)
    figures = rng.random((len(SAMPLED) if sampled else 4, len(sizes)))
    figures[4:5, ::2] = np.nan  # an unknown gap
    selected = np.concatenate(
        [rng.permutation(size)[:n] for size, n in zip(sizes, k, strict=True)] or [[]]
    ).astype(int)
    lengths = np.array(sizes, dtype=np.int64) + 1
    choice = Selections(
        selected, k, figures, lengths, rng.random(int(lengths.sum())) if curve else None
    )
    shown = (
        Sets(rng.random(sum(sizes)), np.concatenate(([0], np.cumsum(sizes))))
        if marginals
        else None
    )
    return Retrieved(choice, [], labels, marginals=shown)


def written_one_by_one(answer: Retrieved) -> list[dict[str, object]]:
    choice, found, at, curve_at, item_at = answer.choice, [], 0, 0, 0
    for i, k in enumerate(choice.k.tolist()):
        selected = choice.selected[at : at + k].tolist()
        one = {
            "selected": [answer.labels[j] for j in selected]
            if answer.labels
            else selected,
            "k": k,
        }
        values = [
            None if math.isnan(value) else value
            for value in choice.figures[:, i].tolist()
        ]
        one |= dict(zip(SAMPLED, values, strict=False))
        if choice.curves is not None:
            one["curve"] = choice.curves[
                curve_at : curve_at + choice.lengths[i]
            ].tolist()
        if answer.marginals is not None:
            one["marginals"] = answer.marginals.p[
                item_at : item_at + choice.lengths[i] - 1
            ].tolist()
        found.append(one)
        at, curve_at, item_at = (
            at + k,
            curve_at + choice.lengths[i],
            item_at + choice.lengths[i] - 1,
        )
    return found


@pytest.mark.parametrize(
    "sizes",
    [[], [0], [6], [0, 3, 0, 2, 5, 1, 4], [300, 2, 0, 400], [7] * 2300, [300] * 300],
)
def test_each_set_is_written_whole_and_in_order(sizes):
    for turn in range(16):
        curve, marginals, sampled, named = (bool(turn >> bit & 1) for bit in range(4))
        answer = answered(
            sizes,
            curve=curve,
            marginals=marginals,
            sampled=sampled,
            labels=LABELS if named else None,
        )

        document = json.loads(to_json(answer, {"setting": "multilabel"}).body)

        assert document == {"sets": written_one_by_one(answer), "setting": "multilabel"}
        assert [list(one) for one in document["sets"]] == [
            list(one) for one in written_one_by_one(answer)
        ]
