"""Orders to import a model that was trained elsewhere: checked here, and accepted as jobs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from io import SEEK_END
from typing import BinaryIO

from pydantic import Field

from app.access.caller import Caller
from app.data.dataset import Dataset
from app.errors import Forbidden, Invalid
from app.jobs.job import Job
from app.jobs.queue import id_of_key
from app.usecases import jobs
from app.usecases.datasets import find_named
from app.usecases.feature_costs import FeatureCosts
from app.usecases.fields import Names, Text
from app.usecases.matrices import MatrixFields, read_matrix
from app.usecases.ports import Ports
from app.usecases.specs import Calibration, Format, ImportSpec
from app.usecases.train import listed_costs

KIND = "import"


class ImportRequest(MatrixFields):
    """The fields of the form besides the file; matrix, actions and prices are JSON."""

    format: Format = Field(
        description="`onnx`: any library; `joblib`: a fitted classifier, called as it is, with PAYOFF_ALLOW_PICKLES"
    )
    dataset: Text = Field(description="labelled rows that the model is evaluated on, and was not trained on")
    calibration: Calibration = Field(default="none", description="of the model's probabilities, on the same rows")
    classes: Names | None = Field(
        default=None,
        description="names of the columns of the model's probabilities, where it has none; repeat the part",
    )
    feature_costs: FeatureCosts = None


def submit(
    ports: Ports,
    model: str,
    asked: ImportRequest,
    content: BinaryIO,
    reserve: Callable[[int], None],
    *,
    key: str | None,
    caller: Caller,
) -> Job:
    """Accept an order with a file, checked as far as possible beforehand; the same `key` answers with the first job.

    `reserve` is told the bytes of memory that the file takes while it is kept.

    Raises Invalid with the place of what cannot work, NotFound for an unknown data set, Forbidden for joblib files,
    unless the service takes them.
    """
    if asked.format == "joblib" and not ports.imports.pickles:
        raise Forbidden("a joblib file runs code when it is loaded: send onnx, or set PAYOFF_ALLOW_PICKLES=1")
    dataset = find_named(ports, asked.dataset, "/dataset", caller)
    _check_labels(dataset)
    stakes = read_matrix(asked, dataset.classes or ())
    if stakes is None and asked.actions is not None:
        raise Invalid.at("/actions", "actions are the columns of benefits; send benefits, too")
    size = content.seek(0, SEEK_END)
    if not size:
        raise Invalid.at("/file", "the file is empty")
    reserve(size)
    content.seek(0)
    spec = ImportSpec(
        model=model,
        format=asked.format,
        file=hashlib.file_digest(content, "sha256").hexdigest(),  # type: ignore[arg-type]
        dataset=dataset.id,
        calibration=asked.calibration,
        classes=asked.classes,
        benefits=None if stakes is None else stakes.benefits.tolist(),
        actions=None if stakes is None else stakes.actions,
        feature_costs=listed_costs(asked.feature_costs, [feature.name for feature in dataset.features]),
    )
    return _kept_and_submitted(ports, spec, content, key or secrets.token_hex(16), caller)


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
