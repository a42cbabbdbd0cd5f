"""One model: decisions, explanations, sets, questions, outcomes, versions, aliases, matrices."""

import builtins
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

from payoff_client import deciding
from payoff_client.deciding import Decisions, Features, named, stated
from payoff_client.documents import (
    AcquireOptions,
    BenefitOptions,
    Benefits,
    Card,
    Case,
    Cases,
    Description,
    Document,
    Explain,
    Fields,
    FileDecisions,
    FileStakes,
    Matrix,
    Object,
    Period,
    Record,
    ReplayOptions,
    Report,
    RetrieveOptions,
    Stakes,
    Stored,
    warn,
)
from payoff_client.errors import Invalid, InvalidAnswer, PayoffError, located
from payoff_client.files import PART_SIZE, fields_of_answer, of_parts, opened, written
from payoff_client.jobs import finished
from payoff_client.rows import Rows, Table, plain, table_of
from payoff_client.showing import html_of
from payoff_client.terminal import Bar, in_notebook
from payoff_client.transport import (
    SVG,
    Call,
    Link,
    Linked,
    Mode,
    delete,
    post,
    put,
    query,
    shared,
    step,
)

C = TypeVar("C", bound=Cases)
# The columns of the result that a field adds.
_COLUMNS = {
    "unit_costs": ["decision", "expected_cost"],
    "coverage": ["low", "high"],
    "bands": ["decision", "p:"],
    "baseline": ["uplift:"],
}
_FIGURES = (
    "matrix_in_words",
    "limits",
    "total",
    "unlimited_total",
    "gap",
)  # of a file as a whole


class _Saved(Linked[Mode]):
    """The documents of one kind saved for a model."""

    def __init__(self, link: Link, path: str, kind: str) -> None:
        super().__init__(link)
        self._path = f"{path}/{kind}"
        self._kind = kind

    def _of(self, name: str) -> str:
        return f"{self._path}/{step(name, safe=':')}"

    @shared
    async def list(self) -> builtins.list[Object]:
        """The newest version of each, by name."""
        document = await self._link.document(Call("GET", self._path), dict[str, Any])
        documents: builtins.list[Object] = document[self._kind]
        return documents

    @shared
    async def delete(self, name: str) -> None:
        """Delete one with all its versions."""
        await self._link.request(delete(self._of(name)))


class Matrices(_Saved[Mode]):
    """The benefit matrices saved for a model, which requests name: `benefits="autumn-2026"`."""

    @shared
    async def save(
        self,
        name: str,
        /,
        benefits: Benefits | None = None,
        *,
        cost_matrix: Benefits | None = None,
        actions: Sequence[str] | None = None,
    ) -> Matrix:
        """Save benefits or a cost matrix for the classes of the latest version.

        Other content under the same name is a new `version`. Raises Invalid where the matrix does
        not fit the classes or is too large, Conflict where there is no room.
        """
        document = stated(benefits=benefits, cost_matrix=cost_matrix, actions=actions)
        return await self._link.document(put(self._of(name), document), Matrix)

    @shared
    async def get(self, name: str) -> Matrix:
        """A matrix in words, `name` or `name:2`: `benefits`, `actions`, `version`, `versions`.

        Raises NotFound.
        """
        return await self._link.document(Call("GET", self._of(name)), Matrix)


class Guarantees(_Saved[Mode]):
    """The guarantees saved for a model: `rule="guaranteed", guarantee="careful"` decides by one."""

    def __init__(self, link: Link, path: str, version_path: str) -> None:
        super().__init__(link, path, "guarantees")
        self._version_path = f"{version_path}/guarantees"

    @shared
    async def save(
        self,
        name: str,
        /,
        benefits: Benefits | None = None,
        *,
        guarantee: Fields,
        cost_matrix: Benefits | None = None,
        actions: Sequence[str] | None = None,
        dataset: str | None = None,
    ) -> Object:
        """Certify a guarantee under a matrix on the hold-out of the version, and save it.

        With `dataset` on its rows, which the model has not seen. `guarantee` has `action`,
        `otherwise`, `wrong` and `at_most`, or `loss_at_most`, and perhaps `confidence`. Raises
        Conflict where nothing is certified.
        """
        document = stated(benefits=benefits, cost_matrix=cost_matrix, actions=actions)
        document |= stated(dataset=dataset) | {"guarantee": dict(guarantee)}
        call = put(f"{self._version_path}/{step(name)}", document)
        return await self._link.document(call, Object)

    @shared
    async def get(self, name: str) -> Object:
        """A guarantee, `name` or `name:2`: its `cut`, `share`, `bound`. Raises NotFound."""
        return await self._link.document(Call("GET", self._of(name)), Object)


class Model(Linked[Mode]):
    """A model, by its `reference`: `name`, `name:3` or `name@alias`.

    `matrices` and `guarantees` are those that are saved for it.
    """

    def __init__(self, link: Link, reference: str) -> None:
        super().__init__(link)
        self.reference = reference
        self.name = reference.partition("@")[0].partition(":")[0]
        self._path = f"/models/{step(self.name)}"
        self._version_path = f"/models/{step(reference, safe=':@')}"
        # the features of the version that answered last
        self._last: Features | None = None
        # the description of the upload, if `train` made one
        self.dataset: Stored | None = None
        self.matrices: Matrices[Mode] = Matrices(link, self._path, "matrices")
        self.guarantees: Guarantees[Mode] = Guarantees(
            link, self._path, self._version_path
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reference!r})"

    def _repr_html_(self) -> str:
        return html_of(f"Model {self.reference}", self.dataset or {})

    async def _described(self) -> Description:
        """Versions, aliases and the history of the aliases."""
        return await self._link.document(Call("GET", self._path), Description)

    async def _card(self) -> Card:
        """The card of the version: learner, features, classes, metrics, digests.

        Notebooks show the metrics of a model of rewards as pictures.
        """
        path = self._version_path
        if self.reference == self.name:
            path = f"{path}:{(await self._described())['latest']}"
        card = await self._link.document(Call("GET", path), Card)
        return {**card, "metrics": Report(card.get("metrics") or {})}

    describe, card = shared(_described), shared(_card)

    @shared
    async def set_alias(self, alias: str, version: int) -> None:
        """Point an alias at a version."""
        call = put(f"{self._path}/aliases/{step(alias)}", {"version": version})
        warn((await self._link.document(call, Document)).get("warnings"))

    @shared
    async def delete_alias(self, alias: str) -> None:
        """Delete an alias; its version stays."""
        await self._link.request(delete(f"{self._path}/aliases/{step(alias)}"))

    @shared
    async def reasons(self) -> Object:
        """The `texts` of reasons saved for the model, by feature and direction. Raises NotFound."""
        return await self._link.document(Call("GET", f"{self._path}/reasons"), Object)

    @shared
    async def set_reasons(self, texts: Mapping[str, Mapping[str, str]]) -> Object:
        """Save texts by feature and direction, such as `{"income": {"low": "Income too low"}}`.

        Raises Invalid for a feature that the latest version does not have.
        """
        call = put(f"{self._path}/reasons", {**texts})
        return await self._link.document(call, Object)

    @shared
    async def delete_reasons(self) -> None:
        """Delete the texts of reasons; answers have reasons without texts."""
        await self._link.request(delete(f"{self._path}/reasons"))

    @shared
    async def answer(
        self,
        data: Cases,
        *,
        explain: Explain = False,
        record: Record = None,
        **stakes: Unpack[Stakes],
    ) -> Decisions:
        """Decisions as arrays, with all other fields of the answer: see `decide`."""
        table = table_of(data)
        return await self._decide(
            table, _fields(table, stakes, explain=explain, record=record)
        )

    @shared
    async def decide(
        self,
        data: C,
        *,
        explain: Explain = False,
        record: Record = None,
        keep: bool = False,
        **stakes: Unpack[Stakes],
    ) -> C:
        """The action with the largest expected benefit for each row.

        `data` is a frame of pandas, polars or pyarrow, a list of objects, one object, or an array
        with the features in the model's order. The result has the same type (an array gives an
        object of columns) and the frame's index: columns that the model does not use (with `keep`
        all), then `decision`, `p:<class>` and `benefit:<action>`; `value` from a model of numbers,
        with `unit_costs` `decision` and `expected_cost`, with `coverage` `low` and `high`.
        `benefits` are `{class: {action: number}}`, a matrix with `actions`, or the name of a saved
        one (see `matrices`); `cost_matrix`, `rule`, `guarantee`, `threshold`, `costs`, `baseline`,
        `priors`, `limits`, `resources`, `explore`, `bands` and `sum_at_most` are those of
        `/predict`.
        `explain` adds `runner_up`, `margin` and `contribution:<feature>`; with an object such as
        `{"reasons": 4, "against": "approve"}` also `reason:1`…, each a text or else a feature.
        `record` is True, the name of a column of ids, or an object of `ids`, `instances` (a
        boolean) and `segments` (columns by which `outcomes` can be divided).
        Warnings of the service are PayoffWarnings.

        Large tables go as NumPy arrays or Arrow streams, in several requests to one version; with
        `limits` in one. Raises Invalid, whose `errors` name row and column of `data`, and
        ValueError where a column of `data` has a name of the result; nothing is sent then.
        """
        return await self._decide_data(
            data, stakes, explain=explain, record=record, keep=keep
        )

    @shared
    async def explain(
        self,
        data: C,
        *,
        record: Record = None,
        keep: bool = False,
        **stakes: Unpack[Stakes],
    ) -> C:
        """`decide` with `runner_up`, `margin` and `contribution:<feature>` for each row."""
        return await self._decide_data(
            data, stakes, explain=True, record=record, keep=keep
        )

    async def _decide_data(
        self, data: C, stakes: Stakes, *, explain: Explain, record: Record, keep: bool
    ) -> C:
        """The columns of the data that are kept, and the decisions, in the type of the data."""
        table = table_of(data)
        fields = _fields(table, stakes, explain=explain, record=record)
        extra = ["runner_up", "margin", "contribution:", "reason:"] if explain else []
        if stakes.get("explore"):
            extra.append("propensity")
        for field, names in _COLUMNS.items():
            if stakes.get(field) is not None:
                extra += names
        if record and not isinstance(record, str):
            extra.append("id")
        # A column with a name of the result is refused before a request, as its record would stay.
        await self._kept(table, extra, keep_all=keep)
        answer = await self._decide(table, fields)
        warn(answer.warnings)
        columns = answer.columns()
        if isinstance(record, str):
            columns.pop("id", None)  # the frame has a column of ids
        kept = await self._kept(table, extra, keep_all=keep)
        return cast(C, table.result(kept, columns))

    async def _kept(
        self, table: Table, extra: Sequence[str], *, keep_all: bool
    ) -> builtins.list[str]:
        """The columns of the table in the result (`Features.kept`)."""
        if table.names is None:
            return []
        return (await self._features(fresh=False)).kept(table, extra, keep_all=keep_all)

    @shared
    async def decide_file(
        self,
        source: str | Path,
        target: str | Path,
        *,
        record: bool | str | None = None,
        **stakes: Unpack[FileStakes],
    ) -> FileDecisions:
        """Decide for a file of any length, in bounded memory.

        Files are CSV (also .gz) or Parquet by their suffix. The target has the columns that the
        model does not use, then those of `decide`; it appears when it is complete. `record` is
        True, False, or the name of a column of ids, with which a file that is decided again records
        nothing twice; the other arguments are those of `decide`, and `delimiter`, `decimal`,
        `encoding` of a CSV file. Returns `rows`, `model` and `warnings`. With limits the file is
        one request; their figures are returned, too.
        """
        source, target = Path(source), Path(target)
        if target.exists() and source.exists() and target.samefile(source):
            raise ValueError(
                f"{target} has the cases; name another file for the decisions"
            )
        features = await self._features(fresh=True)
        fields = await self._pinned({"model": features.model, **stated(**stakes)})
        if record is not None:
            fields["record"] = bool(record)
        if isinstance(record, str):
            fields["id"] = record
        notes: list[list[str]] = []
        answer: Object = {}
        done = 0
        size = math.inf if deciding.are_together(fields) else PART_SIZE
        with (
            opened(source, fields, size) as (kind, columns, parts),
            written(target) as (accept, writer),
            Bar(f"deciding {source.name}", self._link.progress) as bar,
        ):
            kept = [
                name
                for name in columns
                if name not in (*features.names, fields.get("id"))
            ]
            params = query({**of_parts(fields), **({"keep": kept} if kept else {})})
            for part in parts:
                headers = {"Content-Type": kind, "Accept": accept}
                call = Call(
                    "POST",
                    "/predict",
                    params,
                    part.content,
                    headers,
                    record is not True,
                )
                try:
                    answer, rows = await self._link.read(
                        call,
                        lambda response: (
                            fields_of_answer(response),
                            writer.rows_of(response),
                        ),
                    )
                except PayoffError as error:
                    raise located(error, int, features.names, done) from None
                notes.append(answer.get("warnings") or [])
                done += part.rows
                writer.write(rows)
                bar.show(part.share, f"{done:,} rows")
        report = {
            "rows": done,
            "model": features.model,
            "warnings": deciding.notes_of(notes),
        }
        report |= {name: answer[name] for name in _FIGURES if name in answer}
        return cast(FileDecisions, report)

    @shared
    async def retrieve(
        self,
        data: Cases,
        /,
        *,
        loss: str | Fields = "f_beta",
        setting: str = "binary",
        **options: Unpack[RetrieveOptions],
    ) -> Report:
        """The set of rows (`binary`), or of labels or classes of each row, of least expected loss.

        `selected` has positions of rows, for `frame.iloc`, or labels. `options` are the other
        fields of `/retrieve`, such as `k_max`.
        """
        table = table_of(data)
        features = None if table.names is None else await self._features(fresh=True)
        fields = {"model": self.reference, "setting": setting}
        fields |= stated(loss=named(loss, "name"), **options)
        try:
            call = deciding.call_for("/retrieve", table, features, fields)
            return Report(await self._link.document(call, Object))
        except PayoffError as error:
            raise located(error, table.label, table.names or ()) from None

    @shared
    async def acquire(
        self,
        known: Cases,
        /,
        ask: Callable[[str], object] | None = None,
        *,
        unavailable: Sequence[str] = (),
        record: Record = None,
        **options: Unpack[AcquireOptions],
    ) -> Report:
        """The feature to acquire next for a case, or the decision.

        `known` is an object of values by feature. `ask(feature)` returns a value, or None where it
        is unavailable; it is called until the case is decided. Without `ask` the answer is the
        state of the case. `known` in the answer has all values. `record` is as in `decide`;
        `options` are `budget`, `benefits`, `actions`, `feature_costs`. For a list of objects or a
        frame, whose empty values are not known yet, `results` has the state of each case.
        """
        fields = {
            "model": self.reference,
            **stated(unavailable=[*unavailable] or None, **options),
        }
        table = table_of(known)
        if record is not None:
            fields["record"] = deciding.recorded(table, record)
        if not isinstance(known, Mapping):
            return await self._acquire_many(table, fields)
        values = {str(name): plain(value) for name, value in known.items()}
        while True:
            call = post("/acquire", {**fields, "known": values})
            state = Report(await self._link.document(call, Case))
            state["known"] = dict(values)
            if ask is None or state["status"] != "acquire" or not state.get("next"):
                return state
            feature = state["next"]["feature"]
            if feature in values:
                raise InvalidAnswer(f"the service asks for {feature!r} again")
            answer = ask(feature)
            values[feature] = plain(
                await answer if inspect.isawaitable(answer) else answer
            )

    async def _acquire_many(self, table: Table, fields: Mapping[str, Any]) -> Report:
        """The states of the cases of a table."""
        if isinstance(table, Rows):  # None is a value that is unavailable
            rows = [
                {name: plain(value) for name, value in row.items()}
                for row in table.data
            ]
        else:
            rows = [
                {name: value for name, value in row.items() if value is not None}
                for row in table.objects()
            ]
        try:
            call = post("/acquire", {**fields, "instances": rows})
            return Report(await self._link.document(call, Object))
        except PayoffError as error:
            raise located(error, table.label, table.names or ()) from None

    @shared
    async def benefit(
        self,
        benefits: Benefits,
        /,
        *,
        chart: bool | None = None,
        **options: Unpack[BenefitOptions],
    ) -> Report:
        """The benefit of a matrix on the hold-out of the version, per row, in its own unit.

        `chart` draws it; by default in notebooks. `options` are `actions`, `priors`, `points`,
        `guarantee`, and `dataset`, with new rows in place of the hold-out. Raises Conflict where
        the version has none.
        """
        call = post(
            f"{self._version_path}/benefit", stated(benefits=benefits, **options)
        )
        return await drawn(
            self._link, call, Report(await self._link.document(call, Object)), chart
        )

    @shared
    async def outcomes(
        self,
        *,
        by: str | None = None,
        chart: bool | None = None,
        **period: Unpack[Period],
    ) -> Report:
        """The report on recorded decisions `since` and `until` (ISO 8601).

        In parts `by` day, week, action, version, key or `segment:<column>`. Amounts are in the unit
        of the matrices, per decision. With `chart`, by default in notebooks, `series` adds up
        what was promised and realised by day.
        """
        series = in_notebook() if chart is None else chart
        fields = stated(by=by, series=series or None, **period)
        call = Call("GET", f"{self._version_path}/outcomes", fields)
        return Report(await self._link.document(call, Object))

    @shared
    async def waiting(self, /, **query: str | int | None) -> Report:
        """A page of the recorded decisions that wait for a person: `decisions`, `next_page_token`.

        `query` are `action`, `open`, `order` (`stake` or `time`), `page_size`, `page_token`,
        `since` and `until`.
        """
        call = Call("GET", f"{self._version_path}/decisions", stated(**query))
        return Report(await self._link.document(call, Object))

    @shared
    async def replay(self, **options: Unpack[ReplayOptions]) -> Report:
        """The benefit of other versions, rules or a matrix on recorded decisions.

        `options` are `models`, `rules`, `benefits` or `cost_matrix`, `actions`, `since` and
        `until`. Raises JobFailed where the replay fails.
        """
        order = post(f"{self._version_path}/replay", stated(**options))
        job = await finished(self._link, order, f"replaying {self.reference}")
        return Report(job["result"])

    async def _features(self, *, fresh: bool) -> Features:
        """The features of the version: those of the last answer, unless they must be `fresh`."""
        if fresh or self._last is None:
            self._last = Features.of(await self._card())
        return self._last

    async def _pinned(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields with the present version of a saved matrix, for all requests of a table."""
        name = fields.get("benefits")
        if not isinstance(name, str) or ":" in name:
            return dict(fields)
        matrix = await self._matrix(name)
        return {**fields, "benefits": f"{name}:{matrix['version']}"}

    async def _matrix(self, name: str) -> Matrix:
        """A saved matrix."""
        return await self._link.document(
            Call("GET", f"{self._path}/matrices/{step(name)}"), Matrix
        )

    async def _decide(self, table: Table, fields: Mapping[str, Any]) -> Decisions:
        """The decisions for a table."""
        if table.names is None:
            return await self._decide_parts(table, None, fields)
        features = await self._features(fresh=False)
        columns = deciding.case_columns(fields)
        name = fields.get("benefits")
        if isinstance(name, str) and not set(table.names) <= set(features.names):
            columns = deciding.case_columns(await self._matrix(name))
        try:
            return await self._decide_parts(table, features, fields, columns)
        except Invalid:
            latest = await self._features(fresh=True)
            if latest == features:
                raise
        # The name or the alias has another version since.
        return await self._decide_parts(table, latest, fields, columns)

    async def _decide_parts(
        self,
        table: Table,
        features: Features | None,
        fields: Mapping[str, Any],
        columns: Sequence[str] = (),
    ) -> Decisions:
        """The decisions for a table, from one or more requests."""
        if features is not None:
            segments = deciding.segments_of(fields)
            features = features.beside(table, columns, segments)
        width = len(features.names) if features else table.data.shape[1]
        media_type = deciding.media_type_of(table, features, fields)
        size = deciding.rows_at_once(table, width, fields, media_type)
        model = self.reference
        if size < len(table):  # several requests go to one version
            latest = await self._features(fresh=True)
            model = latest.model
            if features is not None:
                features = latest.beside(table, columns)
            fields = await self._pinned(fields)
        parts = []
        for start in range(0, max(len(table), 1), size):
            rows = table.part(start, start + size)
            request = {
                "model": model,
                **deciding.fields_of_part(fields, start, start + size),
            }
            try:
                call = deciding.call_for(
                    "/predict", rows, features, request, media_type
                )
                reader = partial(deciding.decisions_of, rows=len(rows))
                parts.append(await self._link.read(call, reader))
            except PayoffError as error:
                names = features.names if features else ()
                raise located(error, table.label, names, start) from None
        return deciding.joined(parts)


def _fields(
    table: Table, stakes: Stakes, *, explain: Explain, record: Any
) -> dict[str, Any]:
    """The fields of `/predict` beside the rows."""
    fields = stated(explain=explain or None, **stakes)
    return (
        fields
        if record is None
        else {**fields, "record": deciding.recorded(table, record)}
    )


async def drawn(link: Link, call: Call, report: Report, chart: bool | None) -> Report:
    """The report of a call, with its chart if `chart`, by default in notebooks."""
    if chart is None:
        chart = in_notebook()
    if chart:
        call = replace(call, headers={**call.headers, "Accept": SVG})
        report.svg = await link.read(call, lambda answer: answer.content.decode())
    return report
