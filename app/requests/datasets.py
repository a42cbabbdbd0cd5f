"""What clients do with data sets."""

from contextlib import suppress

from app.access.caller import Caller
from app.errors import Conflict, NotFound
from app.stores import Stores
from app.tables.dataset import Dataset

# The id of the upload in the documentation. It follows from the upload; a test compares them.
EXAMPLE_ID = "ds_5768cf4cf3e8a191"


def find(stores: Stores, reference: str, caller: Caller) -> Dataset:
    """The data set with this id, or the caller's last one of this name; NotFound, in the same
    words, for those that the caller does not see.
    """
    dataset = stores.datasets.find(stores.datasets.resolve(reference, caller.owner))
    if not caller.sees_data_of(dataset.owner):
        raise NotFound(f"there is no data set {reference!r}")
    return dataset


def find_named(stores: Stores, reference: str, loc: str, caller: Caller) -> Dataset:
    """The data set that a body refers to at `loc`, by id or by its last name; NotFound there."""
    try:
        return find(stores, reference, caller)
    except NotFound as error:
        raise NotFound.at(loc, error.detail) from error


def delete(stores: Stores, dataset_id: str, *, by: Caller) -> None:
    """Remove a data set; Conflict while a job that has not ended needs it.

    The audit log is written first, because files have no transactions: it may list one that could
    not be removed.
    """
    if (
        find(stores, dataset_id, by).id != dataset_id
    ):  # a name could refer to another one by now
        raise NotFound(f"there is no data set with the id {dataset_id!r}")
    if stores.queue.uses_dataset(dataset_id):
        raise Conflict(
            f"a queued or running job uses {dataset_id}; wait for it or cancel it"
        )
    with stores.database.writing() as connection:
        stores.audit.entry(by, "dataset.delete", dataset_id)(connection)
    stores.datasets.remove(dataset_id)


def expire(stores: Stores) -> int:
    """Remove inline data sets that are old and that no unfinished job and no published version
    needs; how many.

    Jobs are looked at before cards: a job that ends between the two publishes its card in the same
    transaction.
    """
    unused = [
        dataset_id
        for dataset_id in stores.datasets.expired()
        if not stores.queue.uses_dataset(dataset_id)
    ]
    if not unused:
        return 0
    named = stores.registry.index.datasets()
    removed = 0
    for dataset_id in unused:
        if dataset_id not in named:
            with suppress(NotFound):  # another worker was faster
                stores.datasets.remove(dataset_id)
                removed += 1
    return removed
