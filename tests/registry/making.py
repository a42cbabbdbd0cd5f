"""Small models, and the way from nothing to a published version."""

from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from app.database.engine import Database
from app.registry.card import Card
from app.registry.files import Files
from app.registry.index import Index
from app.registry.loaded import Cache, Holdout
from app.registry.registry import Registry
from app.storage import FileCache


def make_card(name: str = "triage", version: int = 1, **changes: object) -> Card:
    """A card as a training job would make it."""
    fields = {
        "name": name,
        "version": version,
        "job": "job_1",
        "learner": {"kind": "logistic", "parameters": {"C": 1.0}},
        "features": [
            {"name": "age", "type": "numeric"},
            {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
        ],
        "labels": ["ill"],
        "classes": ["healthy", "ill"],
        "class_priors": {"ill": 0.25, "healthy": 0.75},
        "metrics": {"log_loss": 0.5, "per_class": {"ill": 3}},
        "data": {"dataset": "ds_1", "digest": "00", "rows": 6, "holdout_rows": 2},
    }
    return Card.model_validate({**fields, **changes})


def make_estimator(shift: float = 0.0) -> LogisticRegression:
    X = np.array([[0.0, 0], [1, 1], [2, 0], [3, 1]]) + shift
    return LogisticRegression().fit(X, [0, 0, 1, 1])


HOLDOUT = Holdout(np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0, 1]))


NO_COPIES = FileCache(Path("none"), 0)


def open_registry(
    url: str,
    database: Database,
    *,
    cache_bytes: int = 2**29,
    kept: FileCache = NO_COPIES,
    **options: object,
) -> Registry:
    """A registry as one process has it; `options` are those of its files."""
    return Registry(
        Index(database), Files(url, kept=kept, **options), Cache(cache_bytes)
    )


def publish(
    registry: Registry,
    name: str = "triage",
    estimator: object = None,
    **changes: object,
) -> Card:
    """A new version, from its number to its place in the index."""
    card = make_card(name, **changes)
    staged = registry.stage(
        card, make_estimator() if estimator is None else estimator, HOLDOUT
    )
    with registry.index.database.writing() as connection:
        registry.index.add(connection, staged)
    registry.refresh()
    return staged
