"""Whether what decisions are about has changed: the classes that occur, scores and features,
against those of training or of the days before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from app.errors import NotFound
from app.outcomes.decision import Cases, Label
from app.report.slices import Slice
from app.stores import Stores
from payoff.evidence.drift import (
    Change,
    category_change,
    drifted,
    histogram_change,
    holm,
    odds_change,
)
from payoff.evidence.intervals import SIGNIFICANT

Trained = Callable[
    [int], tuple[np.ndarray | None, int]
]  # by version the class shares (K,) in training, and its rows

_PROMISED = 36  # cases of a class, of which none is known: dozens
_CHANGED = 1.25  # factor of the odds of a class, below which a change does little harm
_FEWEST = 100  # cases on each side of a comparison of distributions
_BINS = 200  # of scores
KEPT = 50_000  # instances of all days
_OF_SIDE = 5_000

Changed = tuple[dict[str, Any], Change | None]  # what was compared, and None where it could not be


def trained(stores: Stores, name: str, version: int) -> tuple[np.ndarray | None, int]:
    """The class shares (K,) and the rows that a version was fitted on; None and 0 of one that is
    deleted, or has no classes.
    """
    try:
        card = stores.registry.index.card(name, version)
    except NotFound:
        return None, 0
    return (card.priors() if card.class_priors else None), card.data.rows


@dataclass
class ClassShares:
    """Counts of the classes by version, and of the same cases the sums of the probabilities."""

    counts: dict[int, np.ndarray] = field(default_factory=dict)
    promised: dict[int, np.ndarray] = field(default_factory=dict)

    def add(self, part: Slice, trained: Trained) -> None:
        version, rows = part.stack.version, np.flatnonzero(part.known)
        shares, _ = trained(version)
        if shares is None or not len(rows):
            return
        self.counts[version] = self.counts.get(version, 0) + np.bincount(
            part.truth[rows], minlength=len(shares)
        )
        self.promised[version] = self.promised.get(version, 0.0) + part.probabilities[rows].sum(
            axis=0
        )

    def document(
        self,
        trained: Trained,
        classes: Mapping[int, Sequence[Label]],
        basis: str,
        *,
        selective: bool,
    ) -> dict[str, Any]:
        """Whether they changed is not answered where truth is known more often after some actions."""
        versions = sorted(version for version, counts in self.counts.items() if counts.sum())
        shares, tables = {}, []
        for version in versions:
            before, rows = trained(version)
            assert before is not None
            shares[version] = before
            tables.append((self.counts[version], np.rint(before * rows).astype(np.int64)))
        p_values = [category_change(*table).p_value for table in tables]
        adjusted = holm(np.array(p_values))
        factors = [odds_change(*table) if table[1].any() else None for table in tables]
        return {
            "versions": [
                {
                    "version": version,
                    "classes": [
                        {
                            "class": label,
                            "cases": int(count),
                            "observed": float(count / counts.sum()),
                            "trained": float(p),
                        }
                        for label, count, p in zip(
                            classes[version], counts, shares[version], strict=True
                        )
                    ],
                    "p_value": p,
                    "adjusted_p_value": float(own),
                    "odds_ratio": factor,
                    "changed": None
                    if selective or factor is None
                    else bool(own < SIGNIFICANT and factor >= _CHANGED),
                }
                for version, (counts, _), p, own, factor in zip(
                    versions, tables, p_values, adjusted, factors, strict=True
                )
            ],
            "basis": basis,
        }

    def missing(self, classes: Mapping[int, Sequence[Label]]) -> str | None:
        """Why nothing is concluded where the truths of some class seem not to become known; None
        where all do.

        Among the cases with known truth a class was promised dozens of times, and none of them has
        it.
        """
        for version, counts in self.counts.items():
            promised = np.where(counts == 0, self.promised[version], 0.0)
            if promised.max(initial=0.0) >= _PROMISED:
                k = int(promised.argmax())
                what = f"{promised[k]:.0f} of the cases with known truth were expected to be {classes[version][k]!r}"
                return f"{what}, and none is: perhaps the truth of other classes only becomes known"
        return None


def drift(changes: Sequence[Changed]) -> list[dict[str, Any]]:
    """Names and changes, where there are any, as documents; one correction for all."""
    found = [(name, change) for name, change in changes if change is not None]
    adjusted = holm(np.array([change.p_value for _, change in found]))
    return [
        {
            **name,
            "psi": change.psi,
            "ks": change.ks,
            "p_value": change.p_value,
            "adjusted_p_value": float(own),
            "drifted": drifted(change, float(own)),
        }
        for (name, change), own in zip(found, adjusted, strict=True)
    ]


@dataclass
class Scores:
    """Histograms (K, bins) by version, classes and day of the probabilities of each class, under
    the priors of training, with all features known.
    """

    by_day: dict[tuple[int, tuple[Label, ...]], dict[int, np.ndarray]] = field(default_factory=dict)

    def add(self, part: Slice) -> None:
        plain = part.probabilities[part.stack.plain[part.term]]
        places = np.minimum((plain * _BINS).astype(np.intp), _BINS - 1)
        counts = np.array([np.bincount(column, minlength=_BINS) for column in places.T])
        days = self.by_day.setdefault((part.stack.version, part.stack.classes), {})
        days[part.day] = days.get(part.day, 0) + counts

    def changes(self) -> Iterator[Changed]:
        """The probabilities of each class on the earlier days against the later ones, each about
        half of the cases.
        """
        for (version, classes), days in sorted(self.by_day.items(), key=lambda item: item[0][0]):
            listed = np.array([days[day] for day in sorted(days)])  # (D, K, bins)
            K = listed.shape[1]
            sizes = np.cumsum(listed[:, 0].sum(axis=1))
            cut = min(int(np.searchsorted(sizes, sizes[-1] / 2)) + 1, len(listed) - 1)
            before, after = listed[:cut].sum(axis=0), listed[cut:].sum(axis=0)
            for k in range(1 if K == 2 else 0, K):  # of two classes one has it all
                if min(before[k].sum(), after[k].sum()) >= _FEWEST:
                    yield (
                        {"version": version, "class": classes[k]},
                        histogram_change(before[k], after[k]),
                    )


def feature_changes(recorded: Iterable[Cases]) -> Iterator[Changed]:
    """Each feature of recorded instances, of the first days against the last: its values, None
    where they cannot be compared, and whether it is missing as often.
    """
    before, after = sides(recorded)
    for name in dict.fromkeys(name for one in (*before, *after) for name in one):
        columns = [[one.get(name) for one in side] for side in (before, after)]
        yield {"feature": name, "of": "values"}, compared_values(*columns)
        counts = np.array(
            [np.bincount([value is None for value in side], minlength=2) for side in columns]
        )
        if counts.sum(axis=1).min() >= _FEWEST and counts[:, 1].any():
            yield {"feature": name, "of": "missing"}, category_change(*counts)


def compared_values(before: Sequence[Any], after: Sequence[Any]) -> Change | None:
    """Values of a feature, numbers or categories, without missing ones; None with too few, or
    numbers beside text.
    """
    columns = [[value for value in side if value is not None] for side in (before, after)]
    kinds = {
        isinstance(value, int | float) and not isinstance(value, bool)
        for side in columns
        for value in side
    }
    if min(map(len, columns)) < _FEWEST or len(kinds) != 1:
        return None
    if kinds == {True}:
        numbers = [np.array(side, dtype=np.float64) for side in columns]
        found = np.unique(np.concatenate(numbers))
        return histogram_change(
            *(np.bincount(np.searchsorted(found, side), minlength=len(found)) for side in numbers)
        )
    places = {
        name: i
        for i, name in enumerate(dict.fromkeys(str(value) for side in columns for value in side))
    }
    counts = [
        np.bincount([places[str(value)] for value in side], minlength=len(places))
        for side in columns
    ]
    return category_change(*counts)


def sides(recorded: Iterable[Cases]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Instances of the first and of the last half of the days that have any, at most 5,000 of each;
    none of one day.

    Drawn at random, with the same chance for each instance of a side: rows of a day in the order in
    which they are stored, or as many of a quiet day as of a busy one, would differ where nothing
    has changed. Kept are those with the least random numbers.
    """
    rng, limit = np.random.default_rng(0), 1.0
    number, day, text = np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=object)
    for cases in recorded:
        texts = np.array([one for one in cases.instances or () if one is not None], dtype=object)
        numbers = rng.random(len(texts))
        near = numbers < limit
        number = np.append(number, numbers[near])
        day, text = np.append(day, np.full(near.sum(), cases.day)), np.append(text, texts[near])
        if len(number) > 2 * KEPT:
            least = np.argpartition(number, KEPT)[:KEPT]
            number, day, text = number[least], day[least], text[least]
            limit = float(number.max())
    order = np.argsort(number)[:KEPT]
    day, text = day[order], text[order]
    found = np.unique(day)
    if len(found) < 2:
        return [], []
    is_late = day >= found[len(found) // 2]
    before, after = (
        [orjson.loads(text) for text in text[own][:_OF_SIDE]] for own in (~is_late, is_late)
    )
    return before, after
