"""A trained model becomes a version, in the transaction that ends its job; the folders of attempts
that ended otherwise are removed.
"""

from collections.abc import Sequence
from functools import partial
from time import time
from typing import Any

import numpy as np

from app.errors import NotFound
from app.jobs.job import Job
from app.outcomes.decision import DAY
from app.registry import loaded
from app.registry.card import Card
from app.stores import Stores
from payoff import progress
from payoff.decisions.benefit import oddities


def publish(
    stores: Stores,
    job: Job,
    card: Card,
    estimator: Any,
    holdout: loaded.Holdout | None,
    warnings_of_job: Sequence[str],
) -> None:
    """Publish a version and finish `job`, with the warnings of the card and those of the job alone.

    The attempt gets a version number when it has something to publish, and it alone writes the
    folder of that number. So numbers have gaps only where an attempt dies while it publishes.
    """
    with progress.part(0.95, 1.0, "publishing"):
        alive = partial(stores.queue.held, job=job)
        card = stores.registry.stage(card, estimator, holdout, also=alive)
        warnings = [*card.warnings, *warnings_of_job]
        # Warnings about the matrix are not kept with the card, as decisions may take another one.
        if card.benefits and card.classes:
            odd = oddities(np.array(card.benefits), card.actions, card.classes)
            warnings = [*card.warnings, *odd, *warnings_of_job]
        model = {"name": card.name, "version": card.version}
        result = {"model": model, "metrics": card.metrics, "warnings": warnings}
        with stores.database.writing() as connection:
            stores.registry.index.add(connection, card)
            stores.queue.succeed(connection, job, result)
            stores.audit.published(connection, job.id, f"{card.name}:{card.version}")


def clean_up_leftovers(stores: Stores, seconds: float = DAY) -> None:
    """Remove the folders of versions whose jobs ended so many `seconds` ago without publishing
    them, or that were deleted since.

    Unavailable where the store or the database does not answer.
    """
    for folder in stores.registry.index.unpublished():
        if has_ended(stores, folder.job, seconds):
            stores.registry.discard(folder)


def has_ended(stores: Stores, job: str | None, seconds: float = 0.0) -> bool:
    """Whether a job ended at least so many `seconds` ago, or was deleted."""
    try:
        view = None if job is None else stores.queue.get(job)
    except NotFound:
        return True
    return view is None or (
        view.ended and (view.finished_at or 0.0) <= time() - seconds
    )
