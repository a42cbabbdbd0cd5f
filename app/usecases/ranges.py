"""The values that a model learned from, and whether an instance is far from them."""

from __future__ import annotations

import numpy as np

from app.arrays import TILE
from app.data.table import Table
from app.registry.card import FeatureCard
from app.registry.loaded import Loaded
from app.text import positions


def feature_cards(table: Table, rows: np.ndarray) -> list[FeatureCard]:
    """The features as a card has them, numeric ones with the least and the greatest value among these rows."""
    cards = []
    for j, feature in enumerate(table.schema.features):
        column = table.X[rows, j]
        known = column[np.isfinite(column)] if feature.type == "numeric" else column[:0]
        low, high = (float(known.min()), float(known.max())) if known.size else (None, None)
        cards.append(
            FeatureCard(name=feature.name, type=feature.type, categories=list(feature.categories), low=low, high=high)
        )
    return cards


def strange_values(model: Loaded, X: np.ndarray) -> list[str]:
    """A warning for each feature of rows X (n, m) with values far outside of those in training.

    Far is farther from their range than that is wide: new cases often fall a little outside, but a height in metres
    where training had centimetres falls far. Nothing for models that were published without ranges. O(n m).
    """
    if model.bounds is None:
        return []
    least, greatest = model.bounds
    low, high = _ends(X) if len(X) > TILE else (X, X)
    if not (np.count_nonzero(least > low) or np.count_nonzero(greatest < high)):  # nearly always; faster than `any`
        return []
    far = (least > X) | (greatest < X)
    counts = np.count_nonzero(far, axis=0)
    found = []
    for j in np.flatnonzero(counts):
        card = model.card.features[j]
        where = positions(np.flatnonzero(far[:, j]), counts[j])
        found.append(
            f"{counts[j]} of {len(X)} instances {where} have {card.name!r} far outside of its range in training,"
            f" {card.low:g} to {card.high:g}"
        )
    return found


def _ends(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each column, NaN apart, of more than `TILE` rows."""
    cut = len(X) - len(X) % TILE
    tiles = X[:cut].reshape(cut // TILE, TILE * X.shape[1])

    def end(of: np.ufunc) -> np.ndarray:
        found: np.ndarray = of.reduce(np.concatenate((of.reduce(tiles).reshape(TILE, X.shape[1]), X[cut:])))
        return found

    return end(np.fmin), end(np.fmax)
