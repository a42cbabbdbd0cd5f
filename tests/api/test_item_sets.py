"""Sets are written as JSON alike, whether they are short or long, few or many at a time."""

import json

import numpy as np
import pytest

from app.api.codecs.sets import to_json
from app.retrieval.losses import Loss
from app.retrieval.selection import Selections
from app.usecases.retrieve import Retrieved
from app.usecases.retrieve_request import SAMPLED, Sets

LABELS = tuple(f"label {i}" for i in range(400))


def answered(
    sizes: list[int], *, curve: bool, marginals: bool, sampled: bool, labels: tuple[str, ...] | None
) -> Retrieved:
    rng = np.random.default_rng(len(sizes))
    k = np.array([int(rng.integers(size + 1)) for size in sizes], dtype=np.int64)
    figures = rng.random((len(SAMPLED) if sampled else 4, len(sizes)))
    figures[4:5, ::2] = np.nan  # an unknown gap
    selected = np.concatenate([rng.permutation(size)[:n] for size, n in zip(sizes, k, strict=True)] or [[]]).astype(int)
    lengths = np.array(sizes, dtype=np.int64) + 1
    choice = Selections(selected, k, figures, lengths, rng.random(int(lengths.sum())) if curve else None)
    shown = Sets(rng.random(sum(sizes)), np.concatenate(([0], np.cumsum(sizes)))) if marginals else None
    return Retrieved(choice, Loss("jaccard"), [], labels, marginals=shown)


def written_one_by_one(answer: Retrieved) -> list[dict[str, object]]:
    choice, found, at, curve_at, item_at = answer.choice, [], 0, 0, 0
    for i, k in enumerate(choice.k.tolist()):
        selected = choice.selected[at : at + k].tolist()
        one = {"selected": [answer.labels[j] for j in selected] if answer.labels else selected, "k": k}
        values = [None if value != value else value for value in choice.figures[:, i].tolist()]  # noqa: PLR0124 - NaN
        one |= dict(zip(SAMPLED, values, strict=False))
        if choice.curves is not None:
            one["curve"] = choice.curves[curve_at : curve_at + choice.lengths[i]].tolist()
        if answer.marginals is not None:
            one["marginals"] = answer.marginals.p[item_at : item_at + choice.lengths[i] - 1].tolist()
        found.append(one)
        at, curve_at, item_at = at + k, curve_at + choice.lengths[i], item_at + choice.lengths[i] - 1
    return found


@pytest.mark.parametrize("sizes", [[], [0], [6], [0, 3, 0, 2, 5, 1, 4], [300, 2, 0, 400], [7] * 2300, [300] * 300])
def test_each_set_is_written_whole_and_in_order(sizes):
    for turn in range(16):
        curve, marginals, sampled, named = (bool(turn >> bit & 1) for bit in range(4))
        answer = answered(sizes, curve=curve, marginals=marginals, sampled=sampled, labels=LABELS if named else None)

        document = json.loads(to_json(answer, {"setting": "multilabel"}).body)

        assert document == {"sets": written_one_by_one(answer), "setting": "multilabel"}
        assert [list(one) for one in document["sets"]] == [list(one) for one in written_one_by_one(answer)]
