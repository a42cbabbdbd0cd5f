"""The service: models, data sets, training, comparisons, sets, outcomes."""

import builtins
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack, cast

import httpx
import numpy as np

from payoff_client.deciding import (
    SMALL,
    Decisions,
    decisions_of,
    named,
    of_array,
    stated,
)
from payoff_client.documents import (
    BenefitOptions,
    Benefits,
    CalibrateOptions,
    CompareOptions,
    Counts,
    Data,
    Fields,
    ImportOptions,
    Name,
    Object,
    Period,
    Probabilities,
    Report,
    RetrieveOptions,
    Stakes,
    Stored,
    TrainOptions,
    UploadOptions,
    Written,
    warn,
)
from payoff_client.files import columns_of, kind_of, send_outcomes
from payoff_client.jobs import finished
from payoff_client.model import Model, drawn
from payoff_client.rows import arrow_tools, has_pyarrow, table_of
from payoff_client.transport import (
    PARQUET,
    Call,
    Link,
    Linked,
    Mode,
    __version__,
    delete,
    form,
    json_of,
    post,
    query,
    shared,
    step,
)


class Datasets(Linked[Mode]):
    """Upload, list and delete data sets."""

    async def _upload(
        self,
        data: Data,
        /,
        *,
        label: str | Sequence[str],
        name: str | None = None,
        **options: Unpack[UploadOptions],
    ) -> Stored:
        """Upload a file (its path) or a frame; the same content has the same id.

        Files are CSV (gzipped or not) or Parquet, by their suffix. `options`: `types` has `number`,
        `category`, `value`, `ignore` or a notation such as `date:%d/%m/%Y` by column, `label_type`
        is that of the label, and `drop_unlabelled` leaves rows without one out, and `drop_classes`
        those of these classes; `delimiter`, `decimal`, `encoding` and `header` are those of CSV.
        """
        if isinstance(data, str | Path):
            kind = kind_of(Path(data))
            content = Path(data).read_bytes()
        elif has_pyarrow():
            kind = PARQUET
            content = arrow_tools().parquet_of(table_of(data))
        else:
            raise ImportError(
                "frames and lists of objects are uploaded as Parquet, which needs pyarrow"
                " (pip install pyarrow)"
            )
        params = {"label": label, **query(stated(name=name, **options))}
        return await self._link.document(
            Call("POST", "/datasets", params, content, {"Content-Type": kind}), Stored
        )

    upload = shared(_upload)

    @shared
    async def from_outcomes(
        self, model: str, /, *, name: str | None = None, **period: Unpack[Period]
    ) -> Stored:
        """A data set of recorded instances of a model and their truth.

        `period` are `since` and `until`.
        """
        call = post(
            "/datasets/from-outcomes", {"model": model, **stated(name=name, **period)}
        )
        return await self._link.document(call, Stored)

    @shared
    async def get(self, dataset: str) -> Object:
        """Describe a data set, by its id or name."""
        return await self._link.document(
            Call("GET", f"/datasets/{step(dataset)}"), Object
        )

    @shared
    async def list(self) -> builtins.list[Object]:
        """All data sets, newest first."""
        return await self._link.items("/datasets", "datasets")

    @shared
    async def delete(self, dataset_id: str) -> None:
        """Delete a data set that no job uses."""
        await self._link.request(delete(f"/datasets/{step(dataset_id)}"))


class Service(Linked[Mode]):
    """A client of the service at `url`, with an API `key`.

    The defaults are PAYOFF_URL and PAYOFF_KEY, or port 8000 of this machine. `timeout` is that of
    one request in seconds; `retry_seconds` bounds the time in which a request that found the
    service busy, starting or unreachable is repeated. `progress` shows bars: by
    default in terminals and notebooks. `transport` is one of httpx. Threads may share a client that
    blocks.
    """

    _client: type[httpx.Client | httpx.AsyncClient]

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 60.0,
        retry_seconds: float = 60.0,
        progress: bool | None = None,
        transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None,
    ) -> None:
        client = self._client(
            **_settings(url, key), timeout=timeout, transport=cast(Any, transport)
        )
        super().__init__(Link(client, retry_seconds, progress))
        self.datasets: Datasets[Mode] = Datasets(self._link)
        self._make = partial(
            type(self), url, key, timeout=timeout, retry_seconds=retry_seconds,
            progress=progress, transport=transport,
        )  # fmt: skip

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self  # copies of an estimator share the client

    def __reduce__(self) -> tuple[Any, ...]:
        return self._make, ()

    def model(self, reference: str) -> Model[Mode]:
        """A model, as `name` (its latest version), `name:3` or `name@alias`; nothing is sent."""
        return Model(self._link, reference)

    @shared
    async def models(self) -> list[Object]:
        """All models with their versions and aliases, by name."""
        return await self._link.items("/models", "models")

    @shared
    async def train(
        self,
        data: Data,
        /,
        *,
        label: str | Sequence[str] | None = None,
        learner: str | Fields = "auto",
        name: str,
        **options: Unpack[TrainOptions],
    ) -> Model[Mode]:
        """Train a model and return the version that was published.

        `data` is a frame, a list of objects, the path of a file, or without `label` the id or name
        of a data set. `learner` is a kind, or an object of `kind` and its parameters. `options` are
        the other fields of `/train`: `benefits`, `actions`, `feature_costs`, `holdout` (a part, or
        `{"by": "time", "column": "applied"}`), `refit`, `seed`, `unit`; and `delimiter`, `decimal`,
        `encoding` of a CSV file, `types` by column. The `dataset` of the model describes the
        upload, with a report on its columns. Raises Invalid, whose `columns` have that report, and
        JobFailed where the training fails.
        """
        fields, dataset, uploaded = await self._stored(data, label, name, options)
        order = {"model": name, "learner": named(learner, "kind"), **fields}
        order["data"] = {"dataset": dataset}
        job = await finished(self._link, post("/train", order), f"training {name}")
        model = self._published(name, job)
        model.dataset = uploaded
        return model

    def _published(self, name: str, job: Object) -> Model[Mode]:
        """The version that a job has published."""
        warn(job.get("warnings"))
        return self.model(f"{name}:{job['model']['version']}")

    @shared
    async def import_model(
        self,
        file: str | Path,
        /,
        *,
        name: str,
        dataset: str,
        format: str = "onnx",  # noqa: A002 - the name of the field
        **options: Unpack[ImportOptions],
    ) -> Model[Mode]:
        """Publish a file of another library, `format` onnx or joblib, as a version of model `name`.

        It is evaluated on the rows of `dataset`, the id of one that it was not trained on.
        `options` are `calibration`, `classes`, and the matrix and prices of `train`. Raises
        JobFailed where the file cannot be used.
        """
        fields = {
            field: value
            if field == "classes" or isinstance(value, str)
            else json_of(value)
            for field, value in stated(
                format=format, dataset=dataset, **options
            ).items()
        }
        path = Path(file)
        order = form(
            f"/models/{step(name)}/versions", fields, path.name, path.read_bytes()
        )
        return self._published(
            name, await finished(self._link, order, f"importing {name}")
        )

    @shared
    async def calibrate(
        self,
        *,
        name: str,
        classes: Sequence[Name],
        labels: Sequence[Name] | np.ndarray,
        scores: Probabilities | None = None,
        probabilities: Probabilities | None = None,
        **options: Unpack[CalibrateOptions],
    ) -> Model[Mode]:
        """Publish a model that calibrates the scores, or probabilities, of another system.

        `labels` are the true classes of their rows; `options` are `method`, `holdout` and
        `weights` (n,). The features of the model are `score`, or one for each class, by its name.
        """
        rows = stated(labels=labels, scores=scores, probabilities=probabilities)
        document = {"model": name, **stated(classes=classes, **options), **rows}
        order = post("/calibrate", document)
        return self._published(
            name, await finished(self._link, order, f"calibrating {name}")
        )

    @shared
    async def decide(
        self,
        probabilities: Probabilities,
        /,
        *,
        classes: Sequence[Name],
        explain: bool = False,
        **stakes: Unpack[Stakes],
    ) -> Decisions:
        """Decide on the probabilities (n, K) of any system, whose columns are `classes`.

        `stakes` are those of `model.decide`.
        """
        fields = stated(classes=classes, explain=explain or None, **stakes)
        call = post("/predict", {**fields, **stated(probabilities=probabilities)})
        answer = await self._link.read(
            call, partial(decisions_of, rows=len(probabilities))
        )
        warn(answer.warnings)
        return answer

    @shared
    async def compare(
        self,
        data: Data,
        /,
        *,
        learners: Sequence[str | Fields],
        benefits: Benefits | None = None,
        label: str | Sequence[str] | None = None,
        chart: bool | None = None,
        **options: Unpack[CompareOptions],
    ) -> Report:
        """The benefit of each learner with each rule on the same folds: `table` and `best`.

        Notebooks show a chart, too. `data` is as for `train`; `options` are `actions`,
        `unit_costs`, `folds` or `holdout`, `seed`, and `delimiter`, `decimal`, `encoding` of a CSV
        file. Amounts are in the unit of `benefits`, per row. Raises JobFailed where the comparison
        fails.
        """
        fields, dataset, uploaded = await self._stored(data, label, None, options)
        kinds = [named(learner, "kind") for learner in learners]
        order = {
            "dataset": dataset,
            "learners": kinds,
            **stated(benefits=benefits),
            **fields,
        }
        job = await finished(self._link, post("/compare", order), "comparing")
        report = Report(job["result"])
        report.dataset = uploaded
        return await drawn(self._link, Call("GET", f"/jobs/{job['id']}"), report, chart)

    async def _stored(
        self,
        data: Data,
        label: str | Sequence[str] | None,
        name: str | None,
        options: Mapping[str, Any],
    ) -> tuple[Object, str, Stored | None]:
        """The fields of an order among the options, its data set, and the description of an upload.

        A data set is its id or name.
        """
        is_file = isinstance(data, Path) or (
            isinstance(data, str) and Path(data).is_file()
        )
        file = Path(cast(str, data)) if is_file else None
        if isinstance(data, str) and label is None and not file:
            return stated(**options), data, None
        if label is None:
            columns = f", one of {', '.join(columns_of(file, options))}" if file else ""
            raise TypeError(
                f"label is required: the name of the column to predict{columns}"
            )
        names = UploadOptions.__annotations__
        of_file: Any = {key: value for key, value in options.items() if key in names}
        fields = {key: value for key, value in options.items() if key not in names}
        dataset = await self.datasets._upload(data, label=label, name=name, **of_file)
        warn(dataset.get("warnings"))
        return stated(**fields), dataset["id"], dataset

    @shared
    async def benefit(
        self,
        probabilities: Probabilities,
        /,
        *,
        classes: Sequence[Name],
        labels: Sequence[Name] | np.ndarray,
        benefits: Benefits,
        weights: Sequence[float] | np.ndarray | None = None,
        chart: bool | None = None,
        **options: Unpack[BenefitOptions],
    ) -> Report:
        """The benefit of a matrix on the probabilities (n, K) of any system and the labels (n,).

        Columns of `probabilities` are `classes`, amounts are in the unit of `benefits`, per row.
        `weights` (n,) say how much each row counts. `chart` draws it; by default in notebooks.
        `options` are `actions`, `priors`, `points`.
        Raises Invalid for rows that do not sum to 1.
        """
        rows = stated(probabilities=probabilities, labels=labels, weights=weights)
        call = post(
            "/benefit",
            {**rows, **stated(classes=classes, benefits=benefits, **options)},
        )
        return await drawn(
            self._link, call, Report(await self._link.document(call, Object)), chart
        )

    @shared
    async def retrieve(
        self,
        probabilities: Probabilities,
        /,
        *,
        loss: str | Fields = "f_beta",
        setting: str = "binary",
        **options: Unpack[RetrieveOptions],
    ) -> Report:
        """The set of items with the smallest expected loss, or a set for each row of probabilities.

        `probabilities` are (n,), one per item (`setting="binary"`), or (n, m), of the labels or
        classes of each row (`multilabel`, `multiclass`). `sets` has `k`, `expected_loss` and
        `selected` (positions) of each; `options` are the other fields of `/retrieve`, such as
        `k_max`. Raises Invalid for numbers outside 0 to 1.
        """
        fields = {"setting": setting, **stated(loss=named(loss, "name"), **options)}
        if isinstance(probabilities, np.ndarray) and probabilities.size > SMALL:
            call = of_array("/retrieve", probabilities, fields)
        else:
            call = post("/retrieve", {**fields, **stated(probabilities=probabilities)})
        return Report(await self._link.document(call, Object))

    @shared
    async def send_outcomes(
        self, outcomes: Data, *, correct: bool = False, **written: Unpack[Written]
    ) -> Counts:
        """Send outcomes of recorded decisions: `id` and `truth`, perhaps `action`, `benefit`, `at`.

        Decisions by rewards have a `benefit` and no truth.

        `outcomes` are objects, a frame, or the path of a file; `delimiter`, `decimal` and
        `encoding` are those of CSV. Sending them again changes nothing; `correct` replaces stored
        ones. Returns `accepted`, `unchanged`, `open` (those without a truth), `unknown` and
        `conflicts`.
        """
        return await send_outcomes(
            self._link, outcomes, {"correct": correct, **written}
        )

    @shared
    async def decision(self, decision_id: str) -> Object:
        """All that is recorded of a decision, and its explanation. Raises NotFound."""
        call = Call("GET", f"/decisions/{step(decision_id)}")
        return await self._link.document(call, Object)

    @shared
    async def close(self) -> None:
        """Close the connections."""
        await self._link.close()


class AsyncPayoff(Service[httpx.AsyncClient]):
    """A client for event loops, whose methods are awaited; its arguments are those of `Payoff`."""

    _client = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Payoff(Service[httpx.Client]):
    _client = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _settings(url: str | None, key: str | None) -> dict[str, Any]:
    """The address and the headers of all requests; ValueError where they are none.

    A password in the URL is sent as a header, so that no message and no log has it.
    """
    secret = (os.environ.get("PAYOFF_KEY", "") if key is None else key).strip()
    if not (secret.isascii() and secret.isprintable()):
        raise ValueError("the key has characters that no header can carry")
    headers = {
        "User-Agent": f"payoff-client/{__version__}",
        "Accept-Encoding": "identity",
    }
    if secret:
        headers["X-API-Key"] = secret
    base = url or os.environ.get("PAYOFF_URL") or "http://127.0.0.1:8000"
    if not base.startswith(("http://", "https://")):
        shown = base.rpartition("@")[2]
        fix = f"write http://{shown} or https://{shown}"
        raise ValueError(f"the URL {shown!r} lacks its scheme; {fix}")
    try:
        at = httpx.URL(base)
    except httpx.InvalidURL as error:
        raise ValueError(f"the URL is invalid: {error}") from error
    auth = httpx.BasicAuth(at.username, at.password) if at.userinfo else None
    return {"base_url": at.copy_with(userinfo=b""), "headers": headers, "auth": auth}
