"""The service: models, training, comparisons, sets, outcomes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import httpx
import numpy as np

from payoff_client.answers import Report, warn
from payoff_client.bodies import SMALL, of_array, stated
from payoff_client.datasets import AsyncDatasets, DatasetMethods, Datasets, pages
from payoff_client.dialect import Dialect, Written, dialect_of
from payoff_client.jobs import ordered
from payoff_client.model import AsyncModel, Model, ModelMethods, charted
from payoff_client.outcomes import send_file, send_rows
from payoff_client.shapes import COMPARED, SETS, TRAINED
from payoff_client.signatures import readable
from payoff_client.stakes import BenefitOptions, Benefits, CompareOptions, RetrieveOptions, TrainOptions
from payoff_client.tables import table_of
from payoff_client.version import __version__
from payoff_client.wire import JSON, AwaitedWire, BlockingWire, Call, Link, blocking, post

M = TypeVar("M", bound=ModelMethods)
D = TypeVar("D", bound=DatasetMethods)
_USER = re.compile(r"^(\w+://)?[^/?#]*@")


@readable
class ServiceMethods(Generic[M, D]):
    """The methods of a client, as coroutines."""

    _model: type[M]
    datasets: D

    def __init__(self, link: Link) -> None:
        self._link = link

    def model(self, reference: str) -> M:
        """A model, as `name` (its latest version), `name:3` or `name@alias`; nothing is sent."""
        return self._model(self._link, reference)

    async def _models(self) -> list[dict[str, Any]]:
        """All models with their versions and aliases, by name."""
        return [each async for each in pages(self._link, "/models", "models", {"name": str})]

    async def _dataset_id(
        self, data: Any, label: str | Sequence[str] | None, name: str | None, dialect: Dialect
    ) -> str:
        """Data that are the id or name of a data set stand for it; others are uploaded."""
        if isinstance(data, str) and label is None:
            dialect.check("a data set", is_csv=False)
            return data
        if label is None:
            raise TypeError("label is required: the name of the column to predict")
        written: Any = dialect.query()
        found = await self.datasets._upload(data, label=label, name=name, **written)
        warn(found["warnings"])
        return str(found["id"])

    async def _train(
        self,
        data: Any,
        /,
        *,
        label: str | Sequence[str] | None = None,
        learner: str | Mapping[str, Any] = "auto",
        name: str,
        progress: bool | None = None,
        **options: Unpack[TrainOptions],
    ) -> M:
        """Train a model and return the version that was published.

        `data` is a frame, a list of objects, the path of a file, or without `label` the id or name of a data set.
        `learner` is a kind, or an object of `kind` and its parameters. `options` are the other fields of `/train`:
        `benefits`, `actions`, `feature_costs`, `holdout`, `refit`, `seed`; and `delimiter`, `decimal`,
        `encoding` of a CSV file. Raises JobFailed where the training does.
        """
        fields: dict[str, Any] = {**options}
        dataset = await self._dataset_id(data, label, name, Dialect.taken(fields))
        order = {"model": name, "learner": _learner(learner), "data": {"dataset": dataset}, **stated(**fields)}
        job = await ordered(self._link, "/train", order, f"training {name}", progress, TRAINED)
        warn(job["warnings"])
        return self.model(f"{name}:{job['model']['version']}")

    async def _compare(
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
        fields: dict[str, Any] = {**options}
        dataset = await self._dataset_id(data, label, None, Dialect.taken(fields))
        order = {"dataset": dataset, "learners": [_learner(each) for each in learners]}
        order |= stated(benefits=benefits, **fields)
        job = await ordered(self._link, "/compare", order, "comparing", progress, dict)
        report = await charted(self._link, Call("GET", f"/compare/{job['id']}"), chart, COMPARED)
        found = Report(report["result"])
        found.svg = report.svg
        return found

    async def _benefit(
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

    async def _retrieve(
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
        fields = {"setting": setting, **stated(loss={"name": loss} if isinstance(loss, str) else loss, **options)}
        if isinstance(probabilities, np.ndarray) and probabilities.size > SMALL:
            call = of_array("/retrieve", probabilities, JSON, fields)
        else:
            call = post("/retrieve", {**fields, **stated(probabilities=probabilities)})
        return Report(await self._link.document(call, SETS))

    async def _send_outcomes(
        self, outcomes: Any, *, correct: bool = False, **dialect: Unpack[Written]
    ) -> dict[str, Any]:
        """What became of recorded decisions, by `id` and `truth`, perhaps `action`, `benefit`, `at`.

        `outcomes` are objects, a frame, or the path of a file; `dialect` has `delimiter`, `decimal` and `encoding` of
        CSV. Sending them again changes nothing; `correct` replaces what is stored. Returns `accepted`, `unchanged`,
        `open` (those without a truth), `unknown` and `conflicts`.
        """
        written = dialect_of(dialect)
        if isinstance(outcomes, str | Path):
            return await send_file(self._link, Path(outcomes), written, correct=correct)
        written.check("a frame", is_csv=False)
        return await send_rows(self._link, table_of(outcomes), correct=correct)

    async def _close(self) -> None:
        """Close the connections."""
        await self._link.wire.close()


class AsyncPayoff(ServiceMethods[AsyncModel, AsyncDatasets]):
    """A client for event loops; its arguments are those of `Payoff`."""

    _model = AsyncModel

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 60.0,
        retry_seconds: float = 60.0,
        progress: bool | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        settings = _settings(url, key)
        wire = AwaitedWire(httpx.AsyncClient(**settings, timeout=timeout, transport=transport))
        super().__init__(Link(wire, retry_seconds=retry_seconds, progress=progress))
        self.datasets = AsyncDatasets(self._link)

    models = ServiceMethods[AsyncModel, AsyncDatasets]._models
    train = ServiceMethods[AsyncModel, AsyncDatasets]._train
    compare = ServiceMethods[AsyncModel, AsyncDatasets]._compare
    benefit = ServiceMethods[AsyncModel, AsyncDatasets]._benefit
    retrieve = ServiceMethods[AsyncModel, AsyncDatasets]._retrieve
    send_outcomes = ServiceMethods[AsyncModel, AsyncDatasets]._send_outcomes
    close = ServiceMethods[AsyncModel, AsyncDatasets]._close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()


class Payoff(ServiceMethods[Model, Datasets]):
    """A client of the service at `url`, with an API `key`; by default PAYOFF_URL and PAYOFF_KEY, or port 8000 here.

    `timeout` is that of one request in seconds; `retry_seconds` bounds the time in which a request that found the
    service busy, starting or unreachable is repeated. `progress` shows bars: by default in terminals and notebooks.
    `transport` is one of httpx. Threads may share a client.
    """

    _model = Model

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 60.0,
        retry_seconds: float = 60.0,
        progress: bool | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        settings = _settings(url, key)
        wire = BlockingWire(httpx.Client(**settings, timeout=timeout, transport=transport))
        super().__init__(Link(wire, retry_seconds=retry_seconds, progress=progress))
        self.datasets = Datasets(self._link)
        options = {"timeout": timeout, "retry_seconds": retry_seconds, "progress": progress, "transport": transport}
        self._made_with = (url, key, options)

    models = blocking(ServiceMethods[Model, Datasets]._models)
    train = blocking(ServiceMethods[Model, Datasets]._train)
    compare = blocking(ServiceMethods[Model, Datasets]._compare)
    benefit = blocking(ServiceMethods[Model, Datasets]._benefit)
    retrieve = blocking(ServiceMethods[Model, Datasets]._retrieve)
    send_outcomes = blocking(ServiceMethods[Model, Datasets]._send_outcomes)
    close = blocking(ServiceMethods[Model, Datasets]._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self  # copies of an estimator share it

    def __reduce__(self) -> tuple[Any, ...]:
        url, key, options = self._made_with
        return _made, (url, key, options)


def _made(url: str | None, key: str | None, options: dict[str, Any]) -> Payoff:
    return Payoff(url, key, **options)


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
    shown = _USER.sub(r"\1", base)
    if not base.startswith(("http://", "https://")):
        raise ValueError(f"the URL {shown!r} lacks its scheme; write http://{shown} or https://{shown}")
    try:
        at = httpx.URL(base)
    except httpx.InvalidURL as error:
        raise ValueError(f"the URL {shown!r} is invalid: {error}") from error
    auth = httpx.BasicAuth(at.username, at.password) if at.userinfo else None
    return {"base_url": at.copy_with(userinfo=b""), "headers": headers, "auth": auth}


def _learner(learner: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": learner} if isinstance(learner, str) else dict(learner)
