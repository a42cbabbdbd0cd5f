"""What clients do with data sets."""

from contextlib import suppress

from app.access.caller import Caller
from app.data.dataset import Dataset
from app.errors import Conflict, NotFound
from app.usecases.ports import Ports

EXAMPLE_ID = "ds_5768cf4cf3e8a191"  # of the upload that the documentation shows; it follows from that, as a test says


def find(ports: Ports, reference: str, caller: Caller) -> Dataset:
    """The data set with this id, or the caller's last one of this name; NotFound, in the same words, for those that the
    caller does not see.
    """
    found = ports.datasets.find(ports.datasets.resolve(reference, caller.owner))
    if not caller.sees_data_of(found.owner):
        raise NotFound(f"there is no data set {reference!r}")
    return found


def find_named(ports: Ports, reference: str, loc: str, caller: Caller) -> Dataset:
    """The data set that a body refers to at `loc`, by id or by its last name; NotFound there."""
    try:
        return find(ports, reference, caller)
    except NotFound as error:
        raise NotFound.at(loc, error.detail) from error


def delete(ports: Ports, dataset_id: str, *, by: Caller) -> None:
    """Remove a data set; Conflict while a job that has not ended needs it.

    The audit log is written first, because files have no transactions: it may list one that could not be removed.
    """
    if find(ports, dataset_id, by).id != dataset_id:  # a name could refer to another one by now
        raise NotFound(f"there is no data set with the id {dataset_id!r}")
    if ports.queue.uses_dataset(dataset_id):
        raise Conflict(f"a queued or running job uses {dataset_id}; wait for it or cancel it")
    with ports.database.writing() as connection:
        ports.audit.entry(by, "dataset.delete", dataset_id)(connection)
    ports.datasets.remove(dataset_id)


def expire(ports: Ports) -> int:
    """Remove inline data sets that are old and that no unfinished job and no published version needs; how many.

    Jobs are looked at before cards: a job that ends between the two publishes its card in the same transaction.
    """
    unused = [
        dataset_id
        for dataset_id in ports.datasets.expired()
        if not ports.queue.uses_dataset(dataset_id)
    ]
    if not unused:
        return 0
    named = ports.registry.index.datasets()
    removed = 0
    for dataset_id in unused:
        if dataset_id not in named:
            with suppress(NotFound):  # another worker was faster
                ports.datasets.remove(dataset_id)
                removed += 1
    return removed
