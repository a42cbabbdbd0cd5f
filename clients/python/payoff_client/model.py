"""One model: decisions, explanations, sets, questions, outcomes, and its versions, aliases and saved matrices."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from payoff_client.deciding import Decider, Decisions, call_for, named, recorded, stated
from payoff_client.documents import (
    AcquireOptions,
    BenefitOptions,
    Benefits,
    Card,
    Case,
    Description,
    Document,
    FileStakes,
    Matrix,
    Object,
    Period,
    Record,
    Report,
    RetrieveOptions,
    Stakes,
    warn,
)
from payoff_client.errors import InvalidAnswer, PayoffError, located
from payoff_client.files import decide_file
from payoff_client.rows import Rows, Table, plain, table_of
from payoff_client.terminal import in_notebook
from payoff_client.transport import SVG, Call, Link, Linked, Mode, delete, post, put, shared, step


class Matrices(Linked[Mode]):
    """The benefit matrices saved for a model, which requests name: `benefits="autumn-2026"`."""

    def __init__(self, link: Link, path: str) -> None:
        super().__init__(link)
        self._path = f"{path}/matrices"

    def _of(self, name: str) -> str:
        return f"{self._path}/{step(name, safe=':')}"

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
        """Save benefits or a cost matrix for the classes of the latest version; other content is a new `version`.

        Raises Invalid where the matrix does not fit the classes or is too large, Conflict where there is no room.
        """
        document = stated(benefits=benefits, cost_matrix=cost_matrix, actions=actions)
        return await self._link.document(put(self._of(name), document), Matrix)

    @shared
    async def get(self, name: str) -> Matrix:
        """A matrix in words, `name` or `name:2`: `benefits`, `actions`, `version`, `versions`; NotFound otherwise."""
        return await self._link.document(Call("GET", self._of(name)), Matrix)

    @shared
    async def list(self) -> builtins.list[Object]:
        """The newest version of each matrix, by name."""
        found: builtins.list[Object] = (await self._link.document(Call("GET", self._path), dict[str, Any]))["matrices"]
        return found

    @shared
    async def delete(self, name: str) -> None:
        """Delete a matrix with all its versions."""
        await self._link.request(delete(self._of(name)))


class Model(Linked[Mode]):
    """A model, by its `reference`: `name`, `name:3` or `name@alias`; with the `matrices` that are saved for it."""

    def __init__(self, link: Link, reference: str) -> None:
        super().__init__(link)
        self.reference = reference
        self._decider = Decider(link, reference)
        self.name = self._decider.name
        self.matrices: Matrices[Mode] = Matrices(link, self._decider.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reference!r})"

    @shared
    async def card(self) -> Card:
        """The card of the version: learner, features, classes, metrics, digests."""
        return await self._decider.card()

    @shared
    async def describe(self) -> Description:
        """Versions, aliases and the history of the aliases."""
        return await self._decider.description()

    @shared
    async def set_alias(self, alias: str, version: int) -> None:
        """Point an alias at a version."""
        call = put(f"{self._decider.path}/aliases/{step(alias)}", {"version": version})
        warn((await self._link.document(call, Document)).get("warnings"))

    @shared
    async def delete_alias(self, alias: str) -> None:
        """Delete an alias; its version stays."""
        await self._link.request(delete(f"{self._decider.path}/aliases/{step(alias)}"))

    @shared
    async def answer(
        self, data: Any, *, explain: bool = False, record: Record = None, **stakes: Unpack[Stakes]
    ) -> Decisions:
        """Decisions as arrays, with all that the service answers beside them: see `decide`."""
        table = table_of(data)
        return await self._decider.decide(table, _fields(table, stakes, explain=explain, record=record))

    @shared
    async def decide(self, data: Any, *, explain: bool = False, record: Record = None, **stakes: Unpack[Stakes]) -> Any:
        """The action with the largest expected benefit for each row.

        `data` is a frame of pandas, polars or pyarrow, a list of objects, one object, or an array with the features in
        the model's order. The result has the same type (an array gives an object of columns) and the frame's index:
        columns that the model does not use, then `decision`, `p:<class>` and `benefit:<action>`; `value` from a model
        of numbers. `benefits` are `{class: {action: number}}`, a matrix with `actions`, or the name of a saved one (see
        `matrices`); `cost_matrix`, `rule`, `threshold`, `costs`, `priors`, `limits`, `resources` and `explore` are
        those of `/predict`. `record` is True, the name of a column of ids, or `{"ids": […], "instances": bool}`.
        Warnings of the service are PayoffWarnings.

        Large tables go as NumPy arrays or Arrow streams, in several requests to one version; with `limits` in one.
        Raises Invalid, whose `errors` name row and column of `data`, and ValueError where a column of `data` has a name
        of the result; nothing is sent then.
        """
        return await self._table(data, stakes, explain=explain, record=record)

    @shared
    async def explain(self, data: Any, *, record: Record = None, **stakes: Unpack[Stakes]) -> Any:
        """`decide` with `runner_up`, `margin` and `contribution:<feature>` for each row."""
        return await self._table(data, stakes, explain=True, record=record)

    async def _table(self, data: Any, stakes: Stakes, *, explain: bool, record: Any) -> Any:
        table = table_of(data)
        fields = _fields(table, stakes, explain=explain, record=record)
        others = ["runner_up", "margin", "contribution:"] if explain else []
        others += ["propensity"] if stakes.get("explore") else []
        if record is None and "id" in (table.names or ()):  # asked only where a column would collide
            others += ["id"] if await self._decider.records() else []
        elif record and not isinstance(record, str):
            others += ["id"]
        answer = await self._decider.decide(table, fields, others)
        warn(answer.warnings)
        columns = answer.columns()
        if isinstance(record, str):
            columns.pop("id", None)  # the frame has them
        kept = [] if table.names is None else (await self._decider.features(fresh=False)).kept(table)
        return table.result(kept, columns)

    @shared
    async def decide_file(
        self,
        source: str | Path,
        target: str | Path,
        *,
        record: bool | str | None = None,
        progress: bool | None = None,
        **stakes: Unpack[FileStakes],
    ) -> dict[str, Any]:
        """Decide for a file of any length, in bounded memory: CSV (also .gz) or Parquet by its suffix.

        The target has the columns that the model does not use, then those of `decide`; it appears when it is complete.
        `record` is True, False, or the name of a column of ids, with which a file that is decided again records nothing
        twice; the other arguments are those of `decide`, and `delimiter`, `decimal`, `encoding` of a CSV file. Returns
        `rows`, `model` and `warnings`. With limits the file is one request; their figures are returned, too.
        """
        shown = self._link.progress if progress is None else progress
        return await decide_file(self._decider, Path(source), Path(target), stated(**stakes), record, shown)

    @shared
    async def retrieve(
        self,
        data: Any,
        /,
        *,
        loss: str | Mapping[str, Any] = "f_beta",
        setting: str = "binary",
        **options: Unpack[RetrieveOptions],
    ) -> Report:
        """The set with the smallest expected loss: of the rows (`binary`), or of the labels or classes of each row.

        `selected` has positions of rows, for `frame.iloc`, or labels. `options` are the other fields of `/retrieve`,
        as `k_max`.
        """
        table = table_of(data)
        features = None if table.names is None else await self._decider.features(fresh=True)
        fields = {"model": self.reference, "setting": setting, **stated(loss=named(loss, "name"), **options)}
        try:
            return Report(await self._link.document(call_for("/retrieve", table, features, fields), Object))
        except PayoffError as error:
            raise located(error, table.label, table.names or ()) from None

    @shared
    async def acquire(
        self,
        known: Any,
        /,
        ask: Callable[[str], Any] | None = None,
        *,
        unavailable: Sequence[str] = (),
        record: Record = None,
        **options: Unpack[AcquireOptions],
    ) -> Report:
        """What to learn next about a case, or the decision.

        `known` is an object of values by feature. `ask(feature)` returns a value, or None where it cannot be had; it is
        called until the case is decided. Without `ask` the answer is the state of the case. The answer's `known` has
        all values. `record` is as in `decide`; `options` are `budget`, `benefits`, `actions`, `feature_costs`,
        `target`. For a list of objects or a frame, whose empty values are not known yet, `results` has the state of
        each.
        """
        fields = {"model": self.reference, **stated(unavailable=[*unavailable] or None, **options)}
        table = table_of(known)
        if record is not None:
            fields["record"] = recorded(table, record)
        if not isinstance(known, Mapping):
            return await self._acquire_many(table, fields)
        values = {str(name): plain(value) for name, value in known.items()}
        while True:
            call = self._decider.once(post("/acquire", {**fields, "known": values}), fields)
            state = Report(await self._link.document(call, Case))
            state["known"] = dict(values)
            if ask is None or state["status"] != "acquire" or not state.get("next"):
                return state
            feature = state["next"]["feature"]
            if feature in values:
                raise InvalidAnswer(f"the service asks for {feature!r} again")
            answer = ask(feature)
            values[feature] = plain(await answer if inspect.isawaitable(answer) else answer)

    async def _acquire_many(self, table: Table, fields: Mapping[str, Any]) -> Report:
        if isinstance(table, Rows):  # None is a value that cannot be had
            rows = [{name: plain(value) for name, value in row.items()} for row in table.data]
        else:
            found = table.objects()
            rows = [{name: value for name, value in row.items() if value is not None} for row in found]
        try:
            call = self._decider.once(post("/acquire", {**fields, "instances": rows}), fields)
            return Report(await self._link.document(call, Object))
        except PayoffError as error:
            raise located(error, table.label, table.names or ()) from None

    @shared
    async def benefit(
        self, benefits: Benefits, /, *, chart: bool | None = None, **options: Unpack[BenefitOptions]
    ) -> Report:
        """What a matrix would have earned on the version's hold-out, per row, in the unit of `benefits`.

        `chart` draws it; by default in notebooks. `options` are `actions`, `priors`, `points`. Raises Conflict where
        the version has no hold-out.
        """
        call = post(f"{self._decider.version_path}/benefit", stated(benefits=benefits, **options))
        return await drawn(self._link, call, Report(await self._link.document(call, Object)), chart)

    @shared
    async def outcomes(self, *, by: str | None = None, **period: Unpack[Period]) -> Report:
        """What became of recorded decisions, of those `since` and `until` (ISO 8601), in parts `by` a column.

        Amounts are in the unit of the matrices, per decision.
        """
        call = Call("GET", f"{self._decider.version_path}/outcomes", stated(by=by, **period))
        return Report(await self._link.document(call, Object))


def _fields(table: Table, stakes: Stakes, *, explain: bool, record: Any) -> dict[str, Any]:
    """The fields of `/predict` beside the rows."""
    fields = stated(explain=explain or None, **stakes)
    return fields if record is None else {**fields, "record": recorded(table, record)}


async def drawn(link: Link, call: Call, report: Report, chart: bool | None) -> Report:
    """The report that a call answers, with its chart where that is wanted, by default in notebooks."""
    if in_notebook() if chart is None else chart:
        call = replace(call, headers={**call.headers, "Accept": SVG})
        report.svg = await link.read(call, lambda answer: answer.content.decode())
    return report
