"""The service: models, training, comparisons, sets, outcomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

import httpx
import numpy as np

from payoff_client.answers import Report, warn
from payoff_client.datasets import Datasets, upload
from payoff_client.deciding import SMALL, named, of_array, stated
from payoff_client.errors import PayoffError, located
from payoff_client.files import NO_OUTCOMES, add_counts, send_file
from payoff_client.jobs import ordered
from payoff_client.model import Model, charted
from payoff_client.rows import Table, table_of, whole
from payoff_client.shapes import COMPARED, COUNTS, SETS, TRAINED
from payoff_client.stakes import (
    BenefitOptions,
    Benefits,
    CompareOptions,
    RetrieveOptions,
    TrainOptions,
    Written,
    refuse_written,
)
from payoff_client.transport import Awaited, AwaitedWire, Blocking, BlockingWire, Call, Link, Linked, Mode, post, shared
from payoff_client.version import __version__

_WORDS = ("id", "truth", "action")  # of an outcome
_OUTCOMES_AT_ONCE = 20_000


class Service(Linked[Mode]):
    """A client of the service at `url`, with an API `key`; by default PAYOFF_URL and PAYOFF_KEY, or port 8000 here.

    `timeout` is that of one request in seconds; `retry_seconds` bounds the time in which a request that found the
    service busy, starting or unreachable is repeated. `progress` shows bars: by default in terminals and notebooks.
    `transport` is one of httpx. Threads may share a client that blocks.
    """

    _wire: type[BlockingWire | AwaitedWire]

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 60.0,
        retry_seconds: float = 60.0,
        progress: bool | None = None,
        transport: Any = None,
    ) -> None:
        wire = self._wire(**_settings(url, key), timeout=timeout, transport=transport)
        super().__init__(Link(wire, retry_seconds, progress))
        self.datasets: Datasets[Mode] = Datasets(self._link)
        options = {"timeout": timeout, "retry_seconds": retry_seconds, "progress": progress, "transport": transport}
        self._made_with = partial(type(self), url, key, **options)

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self  # copies of an estimator share it

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_with, ()

    def model(self, reference: str) -> Model[Mode]:
        """A model, as `name` (its latest version), `name:3` or `name@alias`; nothing is sent."""
        return Model(self._link, reference)

    @shared
    async def models(self) -> list[dict[str, Any]]:
        """All models with their versions and aliases, by name."""
        return await self._link.items("/models", "models", {"name": str})

    @shared
    async def train(
        self,
        data: Any,
        /,
        *,
        label: str | Sequence[str] | None = None,
        learner: str | Mapping[str, Any] = "auto",
        name: str,
        progress: bool | None = None,
        **options: Unpack[TrainOptions],
    ) -> Model[Mode]:
        """Train a model and return the version that was published.

        `data` is a frame, a list of objects, the path of a file, or without `label` the id or name of a data set.
        `learner` is a kind, or an object of `kind` and its parameters. `options` are the other fields of `/train`:
        `benefits`, `actions`, `feature_costs`, `holdout`, `refit`, `seed`; and `delimiter`, `decimal`,
        `encoding` of a CSV file. Raises JobFailed where the training does.
        """
        fields, written = _parted(options)
        dataset = await self._dataset_id(data, label, name, written)
        order = {"model": name, "learner": named(learner, "kind"), "data": {"dataset": dataset}, **stated(**fields)}
        job = await ordered(self._link, "/train", order, f"training {name}", progress, TRAINED)
        warn(job["warnings"])
        return self.model(f"{name}:{job['model']['version']}")

    @shared
    async def compare(
        self,
        data: Any,
        /,
        *,
        learners: Sequence[str | Mapping[str, Any]],
        benefits: Benefits,
        label: str | Sequence[str] | None = None,
        chart: bool | None = None,
        progress: bool | None = None,
        **options: Unpack[CompareOptions],
    ) -> Report:
        """What each learner earns with each rule on the same folds: `table` and `best`, and a chart in notebooks.

        `data` as for `train`; `options` are `actions`, `folds`, `seed`, and `delimiter`, `decimal`, `encoding` of a CSV
        file. Amounts are in the unit of `benefits`, per row.
        Raises JobFailed where the comparison does.
        """
        fields, written = _parted(options)
        dataset = await self._dataset_id(data, label, None, written)
        order = {"dataset": dataset, "learners": [named(each, "kind") for each in learners]}
        order |= stated(benefits=benefits, **fields)
        job = await ordered(self._link, "/compare", order, "comparing", progress, dict)
        report = await charted(self._link, Call("GET", f"/jobs/{job['id']}"), chart, COMPARED)
        found = Report(report["result"])
        found.svg = report.svg
        return found

    async def _dataset_id(
        self, data: Any, label: str | Sequence[str] | None, name: str | None, written: Mapping[str, Any]
    ) -> str:
        """Data that are the id or name of a data set stand for it; others are uploaded."""
        if isinstance(data, str) and label is None:
            refuse_written(written, "a data set")
            return data
        if label is None:
            raise TypeError("label is required: the name of the column to predict")
        found = await upload(self._link, data, label, name=name, **written)
        warn(found["warnings"])
        return str(found["id"])

    @shared
    async def benefit(
        self,
        probabilities: Any,
        /,
        *,
        classes: Sequence[Any],
        labels: Sequence[Any],
        benefits: Benefits,
        chart: bool | None = None,
        **options: Unpack[BenefitOptions],
    ) -> Report:
        """What a matrix would have earned with the probabilities (n, K) of any system and the true labels (n,).

        Columns of `probabilities` are `classes`, amounts are in the unit of `benefits`, per row. `chart` draws it; by
        default in notebooks. `options` are `actions`, `priors`, `points`. Raises Invalid for rows that do not sum to 1.
        """
        document = stated(probabilities=probabilities, classes=classes, labels=labels, benefits=benefits, **options)
        return await charted(self._link, post("/benefit", document), chart)

    @shared
    async def retrieve(
        self,
        probabilities: Any,
        /,
        *,
        loss: str | Mapping[str, Any] = "f_beta",
        setting: str = "binary",
        **options: Unpack[RetrieveOptions],
    ) -> Report:
        """The set of items with the smallest expected loss, or a set for each row of probabilities.

        `probabilities` are (n,), one per item (`setting="binary"`), or (n, m), of the labels or classes of each row
        (`multilabel`, `multiclass`). `sets` has `k`, `expected_loss` and `selected` (positions) of each; `options` are
        the other fields of `/retrieve`, such as `k_max`. Raises Invalid for numbers outside 0 to 1.
        """
        fields = {"setting": setting, **stated(loss=named(loss, "name"), **options)}
        if isinstance(probabilities, np.ndarray) and probabilities.size > SMALL:
            call = of_array("/retrieve", probabilities, fields)
        else:
            call = post("/retrieve", {**fields, **stated(probabilities=probabilities)})
        return Report(await self._link.document(call, SETS))

    @shared
    async def send_outcomes(
        self, outcomes: Any, *, correct: bool = False, **written: Unpack[Written]
    ) -> dict[str, Any]:
        """What became of recorded decisions, by `id` and `truth`, perhaps `action`, `benefit`, `at`.

        `outcomes` are objects, a frame, or the path of a file; `delimiter`, `decimal` and `encoding` are those of CSV.
        Sending them again changes nothing; `correct` replaces what is stored. Returns `accepted`, `unchanged`,
        `open` (those without a truth), `unknown` and `conflicts`.
        """
        if isinstance(outcomes, str | Path):
            return await send_file(self._link, Path(outcomes), {"correct": correct, **written})
        refuse_written(written, "a frame")
        return await self._send_rows(table_of(outcomes), correct=correct)

    async def _send_rows(self, table: Table, *, correct: bool) -> dict[str, Any]:
        total: dict[str, Any] = {**NO_OUTCOMES}
        for start in range(0, len(table), _OUTCOMES_AT_ONCE):
            rows = table.part(start, start + _OUTCOMES_AT_ONCE).objects()
            sent = [
                {
                    name: whole(value) if name in _WORDS else value
                    for name, value in row.items()
                    if value is not None or name == "truth"
                }
                for row in rows
            ]
            try:
                call = post("/outcomes", {"outcomes": sent, "correct": correct})
                add_counts(total, await self._link.document(call, COUNTS))
            except PayoffError as error:
                raise located(error, table.label, before=start) from None
        return total

    @shared
    async def close(self) -> None:
        """Close the connections."""
        await self._link.wire.close()


class AsyncPayoff(Service[Awaited]):
    """A client for event loops, whose methods are awaited; its arguments are those of `Payoff`."""

    _wire = AwaitedWire

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()


class Payoff(Service[Blocking]):
    _wire = BlockingWire

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _parted(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a request, and how a CSV file is written."""
    written = {name: value for name, value in options.items() if name in Written.__annotations__}
    return {name: value for name, value in options.items() if name not in written}, written


def _settings(url: str | None, key: str | None) -> dict[str, Any]:
    """The address and the headers of all requests; ValueError where they are none.

    A password in the URL is sent as a header, so that no message and no log has it.
    """
    secret = (os.environ.get("PAYOFF_KEY", "") if key is None else key).strip()
    if not (secret.isascii() and secret.isprintable()):
        raise ValueError("the key has characters that no header can carry")
    headers = {"User-Agent": f"payoff-client/{__version__}", "Accept-Encoding": "identity"}
    headers |= {"X-API-Key": secret} if secret else {}
    base = url or os.environ.get("PAYOFF_URL") or "http://127.0.0.1:8000"
    if not base.startswith(("http://", "https://")):
        shown = base.rpartition("@")[2]
        raise ValueError(f"the URL {shown!r} lacks its scheme; write http://{shown} or https://{shown}")
    try:
        at = httpx.URL(base)
    except httpx.InvalidURL as error:
        raise ValueError(f"the URL is invalid: {error}") from error
    auth = httpx.BasicAuth(at.username, at.password) if at.userinfo else None
    return {"base_url": at.copy_with(userinfo=b""), "headers": headers, "auth": auth}
