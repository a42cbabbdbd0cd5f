"""The sections on changes: class shares against those of training, scores and features against
those of earlier days.
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

Trained = Callable[[int], tuple[np.ndarray | None, int]]
"""Gives, of a version, the class shares (K,) in training and the number of its rows."""

Lacked = Callable[[int], Mapping[str, np.ndarray]]
"""Gives, of a version, how many training rows had and lacked a value (2,), by feature."""

# Expected cases of a class: so many, and none among the known truths, mean that truths are missing.
_MIN_PROMISED = 36
_MIN_ODDS_FACTOR = 1.25  # of the odds of a class; a smaller change does little harm
_MIN_CASES = 100  # on each side of a comparison of distributions
_BINS = 200  # of scores
KEPT = 50_000  # instances of all days that are held in memory
_MAX_INSTANCES = 5_000  # of a side that are compared

Changed = tuple[dict[str, Any], Change | None]
"""The names of what was compared, and the change, None where the two could not be compared."""

Versioned = tuple[int, dict[str, Any]]
"""A version, and an instance that it decided, by feature name."""


def trained(stores: Stores, name: str, version: int) -> tuple[np.ndarray | None, int]:
    """The class shares (K,) and the number of rows that a version was fitted on; None and 0 of a
    version that is deleted, or has no classes.
    """
    try:
        card = stores.registry.index.card(name, version)
    except NotFound:
        return None, 0
    return (card.priors() if card.class_priors else None), card.data.rows


def lacked(stores: Stores, name: str, version: int) -> dict[str, np.ndarray]:
    """How many rows that a version was fitted on had and lacked a value (2,), by feature; nothing
    of a version that is deleted, or of features whose card does not say it.
    """
    try:
        card = stores.registry.index.card(name, version)
    except NotFound:
        return {}
    return {
        part.name: np.array([card.data.rows - part.missing, part.missing])
        for part in card.features
        if part.missing is not None
    }


@dataclass
class ClassShares:
    """Counts (K,) of the classes by version, and `promised`: of the same cases the sums (K,) of the
    probabilities.
    """

    counts: dict[int, np.ndarray] = field(default_factory=dict)
    promised: dict[int, np.ndarray] = field(default_factory=dict)

    def add(self, part: Slice, trained: Trained) -> None:
        version = part.stack.version
        rows = np.flatnonzero(part.known)
        shares, _ = trained(version)
        if shares is None or not len(rows):
            return
        counts = np.bincount(part.truth[rows], minlength=len(shares))
        promised = part.probabilities[rows].sum(axis=0)
        self.counts[version] = self.counts.get(version, 0) + counts
        self.promised[version] = self.promised.get(version, 0.0) + promised

    def document(
        self,
        trained: Trained,
        classes: Mapping[int, Sequence[Label]],
        basis: str,
        *,
        selective: bool,
    ) -> dict[str, Any]:
        """The shares by version and class, and whether they changed: null with `selective`, where
        truth is known more often after some actions.
        """
        versions = sorted(
            version for version, counts in self.counts.items() if counts.sum()
        )
        shares: dict[int, np.ndarray] = {}
        tables: list[tuple[np.ndarray, np.ndarray]] = []  # counts now, and in training
        for version in versions:
            trained_shares, rows = trained(version)
            assert trained_shares is not None
            shares[version] = trained_shares
            trained_counts = np.rint(trained_shares * rows).astype(np.int64)
            tables.append((self.counts[version], trained_counts))
        p_values = [category_change(*table).p_value for table in tables]
        adjusted = holm(np.array(p_values)).tolist()
        lines = []
        for i, version in enumerate(versions):
            counts, trained_counts = tables[i]
            factor = (
                odds_change(counts, trained_counts) if trained_counts.any() else None
            )
            changed = None
            if not selective and factor is not None:
                changed = adjusted[i] < SIGNIFICANT and factor >= _MIN_ODDS_FACTOR
            columns = zip(classes[version], counts, shares[version], strict=True)
            lines.append(
                {
                    "version": version,
                    "classes": [
                        {
                            "class": label,
                            "cases": int(count),
                            "observed": float(count / counts.sum()),
                            "trained": float(share),
                        }
                        for label, count, share in columns
                    ],
                    "p_value": p_values[i],
                    "adjusted_p_value": adjusted[i],
                    "odds_ratio": factor,
                    "changed": changed,
                }
            )
        return {"versions": lines, "basis": basis}

    def missing(self, classes: Mapping[int, Sequence[Label]]) -> str | None:
        """Why nothing is concluded where the truth of some class seems never to become known; else
        None.

        That is so where the model expected at least `_MIN_PROMISED` cases of a class among those
        with known truth, and there is none.
        """
        for version, counts in self.counts.items():
            promised = np.where(counts == 0, self.promised[version], 0.0)
            if promised.max(initial=0.0) >= _MIN_PROMISED:
                k = int(promised.argmax())
                return (
                    f"{promised[k]:.0f} of the cases with known truth were expected to be"
                    f" {classes[version][k]!r}, and none is:"
                    " perhaps the truth of other classes only becomes known"
                )
        return None


def drift(changes: Sequence[Changed]) -> list[dict[str, Any]]:
    """The changes that could be computed, as documents; p-values are corrected for their number."""
    compared = [(name, change) for name, change in changes if change is not None]
    adjusted = holm(np.array([change.p_value for _, change in compared])).tolist()
    return [
        {
            **name,
            "psi": change.psi,
            "ks": change.ks,
            "p_value": change.p_value,
            "adjusted_p_value": p,
            "drifted": drifted(change, p),
        }
        for (name, change), p in zip(compared, adjusted, strict=True)
    ]


@dataclass
class Scores:
    """Histograms (K, bins) of the probabilities of each class, by version, classes and day.

    Only cases with all features, under the priors of training.
    """

    by_day: dict[tuple[int, tuple[Label, ...]], dict[int, np.ndarray]] = field(
        default_factory=dict
    )

    def add(self, part: Slice) -> None:
        plain = part.probabilities[part.stack.plain[part.term]]
        places = np.minimum((plain * _BINS).astype(np.intp), _BINS - 1)
        counts = np.array([np.bincount(column, minlength=_BINS) for column in places.T])
        days = self.by_day.setdefault((part.stack.version, part.stack.classes), {})
        days[part.day] = days.get(part.day, 0) + counts

    def changes(self) -> Iterator[Changed]:
        """The change of each class's probabilities between the earlier and the later days, each
        about half of the cases.
        """
        for (version, classes), days in sorted(
            self.by_day.items(), key=lambda item: item[0][0]
        ):
            histograms = np.array([days[day] for day in sorted(days)])  # (D, K, bins)
            K = histograms.shape[1]
            sizes = np.cumsum(histograms[:, 0].sum(axis=1))
            cut = min(
                int(np.searchsorted(sizes, sizes[-1] / 2)) + 1, len(histograms) - 1
            )
            before = histograms[:cut].sum(axis=0)
            after = histograms[cut:].sum(axis=0)
            for k in range(
                1 if K == 2 else 0, K
            ):  # of two classes one determines the other
                if min(before[k].sum(), after[k].sum()) >= _MIN_CASES:
                    change = histogram_change(before[k], after[k])
                    yield {"version": version, "class": classes[k]}, change


def feature_changes(recorded: Iterable[Cases], lacked: Lacked) -> Iterator[Changed]:
    """The changes of each feature of recorded instances, of the first days against the last: of its
    values, None where they cannot be compared, and of how often it is missing. The latter since the
    training of the newest version, where its card has that, among the instances that it decided.
    """
    before, after = sides(recorded)
    newest = max((version for version, _ in after), default=0)
    trained_counts = lacked(newest) if newest else {}
    names = dict.fromkeys(name for _, row in (*before, *after) for name in row)
    for name in names:
        columns = [[row.get(name) for _, row in side] for side in (before, after)]
        yield {"feature": name, "of": "values"}, value_change(*columns)
        if name in trained_counts:
            columns[1] = [row.get(name) for version, row in after if version == newest]
        counts = [
            np.bincount([value is None for value in column], minlength=2)
            for column in columns
        ]
        table = np.array([trained_counts.get(name, counts[0]), counts[1]])
        if table.sum(axis=1).min() >= _MIN_CASES and table[:, 1].any():
            yield {"feature": name, "of": "missing"}, category_change(*table)


def value_change(before: Sequence[Any], after: Sequence[Any]) -> Change | None:
    """The change of a feature's values, numbers or categories, without missing ones; None with too
    few values, or numbers beside text.
    """
    columns = [
        [value for value in side if value is not None] for side in (before, after)
    ]
    kinds = {
        isinstance(value, int | float) and not isinstance(value, bool)
        for side in columns
        for value in side
    }
    if min(map(len, columns)) < _MIN_CASES or len(kinds) != 1:
        return None
    if kinds == {True}:
        numbers = [np.array(side, dtype=np.float64) for side in columns]
        distinct = np.unique(np.concatenate(numbers))
        histograms = [
            np.bincount(np.searchsorted(distinct, side), minlength=len(distinct))
            for side in numbers
        ]
        return histogram_change(*histograms)
    categories = dict.fromkeys(str(value) for side in columns for value in side)
    places = {name: i for i, name in enumerate(categories)}
    counts = [
        np.bincount([places[str(value)] for value in side], minlength=len(places))
        for side in columns
    ]
    return category_change(*counts)


def sides(
    recorded: Iterable[Cases],
) -> tuple[list[Versioned], list[Versioned]]:
    """Instances of the first and of the last half of the days that have any, at most
    `_MAX_INSTANCES` of each half, with the versions that decided them; none where only one day has
    any.

    Drawn at random, with the same chance for each instance of a side: rows of a day in the order in
    which they are stored, or as many of a quiet day as of a busy one, would differ where nothing
    has changed. The instances with the smallest random numbers are held.
    """
    rng = np.random.default_rng(0)
    limit = 1.0
    number = np.empty(0)
    day = np.empty(0, dtype=np.int64)
    version = np.empty(0, dtype=np.int64)
    text = np.empty(0, dtype=object)
    for cases in recorded:
        instances = np.array(cases.instances or (), dtype=object)
        rows = np.flatnonzero(instances != None)  # noqa: E711 - of each element
        texts = instances[rows]
        versions = np.array([terms.version for terms in cases.terms], dtype=np.int64)
        numbers = rng.random(len(texts))
        is_small = numbers < limit
        number = np.append(number, numbers[is_small])
        day = np.append(day, np.full(is_small.sum(), cases.day))
        version = np.append(version, versions[cases.term[rows[is_small]]])
        text = np.append(text, texts[is_small])
        if len(number) > 2 * KEPT:
            smallest = np.argpartition(number, KEPT)[:KEPT]
            number, day = number[smallest], day[smallest]
            version, text = version[smallest], text[smallest]
            limit = float(number.max())
    order = np.argsort(number)[:KEPT]
    day, version, text = day[order], version[order], text[order]
    days = np.unique(day)
    if len(days) < 2:
        return [], []
    is_late = day >= days[len(days) // 2]
    before, after = (
        [
            (int(version[i]), orjson.loads(text[i]))
            for i in np.flatnonzero(side)[:_MAX_INSTANCES]
        ]
        for side in (~is_late, is_late)
    )
    return before, after
