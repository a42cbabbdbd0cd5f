"""Orders to import a model that was trained elsewhere: checked here, and accepted as jobs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from io import SEEK_END
from typing import Any, BinaryIO, get_args

from app.access.caller import Caller
from app.data.dataset import Dataset
from app.errors import Forbidden, Invalid
from app.jobs.job import Job
from app.jobs.queue import id_of_key
from app.usecases import jobs
from app.usecases.datasets import find_named
from app.usecases.matrices import read_matrix
from app.usecases.ports import Ports
from app.usecases.specs import Format, ImportSpec
from app.usecases.train import listed_costs

KIND = "import"


def submit(
    ports: Ports,
    order: Mapping[str, Any],
    content: Any,
    reserve: Callable[[int], None],
    *,
    key: str | None,
    caller: Caller,
) -> Job:
    """Accept an order with a file, checked as far as possible beforehand; the same `key` answers with the first job.

    `reserve` is told the bytes of memory that the file takes while it is kept.

    Raises Invalid with the place of what cannot work, NotFound for an unknown data set, Forbidden as `check_format`.
    """
    check_format(ports, order["format"])
    dataset = find_named(ports, order["dataset"], "/dataset", caller)
    _check_labels(dataset)
    stakes = read_matrix(order["matrix"], dataset.classes or ())
    if stakes is None and order["matrix"].actions is not None:
        raise Invalid.at("/actions", "actions are the columns of benefits; send benefits, too")
    size = content.seek(0, SEEK_END)
    if not size:
        raise Invalid.at("/file", "the file is empty")
    reserve(size)
    content.seek(0)
    spec = ImportSpec(
        model=order["model"],
        format=order["format"],
        file=hashlib.file_digest(content, "sha256").hexdigest(),
        dataset=dataset.id,
        calibration=order["calibration"],
        classes=order["classes"],
        benefits=None if stakes is None else stakes.benefits.tolist(),
        actions=None if stakes is None else stakes.actions,
        feature_costs=listed_costs(order["feature_costs"], [feature.name for feature in dataset.features]),
    )
    return _kept_and_submitted(ports, spec, content, key or secrets.token_hex(16), caller)


def check_format(ports: Ports, kind: str) -> None:
    """Invalid for an unknown format; Forbidden for joblib files, unless the service takes them."""
    if kind not in get_args(Format):
        raise Invalid.at("/format", f"format is one of {', '.join(get_args(Format))}")
    if kind == "joblib" and not ports.imports.pickles:
        raise Forbidden("a joblib file runs code when it is loaded: send onnx, or set PAYOFF_ALLOW_PICKLES=1")


def _check_labels(dataset: Dataset) -> None:
    if dataset.multilabel or dataset.classes is None:
        there = f"{len(dataset.labels)} labels" if dataset.multilabel else "numbers as labels"
        raise Invalid.at("/dataset", f"an imported model predicts one label of classes, and this data set has {there}")


def _kept_and_submitted(ports: Ports, spec: ImportSpec, content: BinaryIO, key: str, caller: Caller) -> Job:
    """The file is kept first, under the id that the job is going to have; no job begins without its file."""
    job_id = id_of_key(key, caller.client)
    content.seek(0)
    kept = ports.imports.keep(job_id, content.read())
    try:
        job = jobs.submit(ports, caller, KIND, spec, model=spec.model, dataset=spec.dataset, key=key)
    except BaseException:
        if kept:
            ports.imports.remove(job_id)
        raise
    if job.ended:  # as a repeated request finds it
        ports.imports.remove(job_id)
    return job
