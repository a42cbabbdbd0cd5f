"""Decisions of a model for rows: a table in one request or several, or a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from payoff_client.answers import Decisions, decisions_of, joined, warn
from payoff_client.bodies import NPY, Features, is_json, new_ids, of_part, part_rows, predict_call, recorded, stated
from payoff_client.errors import Invalid, PayoffError, TooLarge, located
from payoff_client.files import decide_file
from payoff_client.matrices import MatrixMethods, pinned
from payoff_client.shapes import CARD, MODEL_OR_CARD, RECORDING
from payoff_client.signatures import readable
from payoff_client.stakes import FileStakes, Stakes
from payoff_client.tables import table_of
from payoff_client.values import Table
from payoff_client.wire import JSON, Call, Link, step


@readable
class DecideMethods:
    """The methods of a model that decide, as coroutines; `reference` is `name`, `name:3` or `name@alias`."""

    def __init__(self, link: Link, reference: str) -> None:
        self._link = link
        self.reference = reference
        self._cached: Features | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reference!r})"

    @property
    def name(self) -> str:
        """The name without version or alias."""
        return self.reference.partition("@")[0].partition(":")[0]

    @property
    def _path(self) -> str:
        return f"/models/{step(self.name)}"

    async def _card(self) -> dict[str, Any]:
        """The card of the version: learner, features, classes, metrics, digests."""
        path = f"/models/{step(self.reference, safe=':@')}"
        found = await self._link.document(Call("GET", path), MODEL_OR_CARD)
        if "versions" in found:
            found = await self._link.document(Call("GET", f"{path}:{found['latest']}"), CARD)
        card: dict[str, Any] = found
        return card

    async def _features(self, *, fresh: bool) -> Features:
        if fresh or self._cached is None:
            self._cached = Features.of(await self._card())
        return self._cached

    async def _answer(
        self, data: Any, *, explain: bool = False, record: Any = None, **stakes: Unpack[Stakes]
    ) -> Decisions:
        """Decisions as arrays, with all that the service answers beside them: see `decide`."""
        return await self._answered(table_of(data), stakes, explain=explain, record=record)

    async def _answered(
        self, table: Table, stakes: Stakes, *, explain: bool, record: Any, own: Collection[str] | None = None
    ) -> Decisions:
        """The same for a table; ValueError before anything is sent where a column has one of the result's `own` names.

        That is checked first because what is recorded stays recorded.
        """
        fields = stated(explain=explain or None, **stakes)
        if record is not None:
            fields["record"] = recorded(table, record)
        features = None if table.names is None else await self._features(fresh=False)
        try:
            return await self._decided(table, features, fields, own)
        except Invalid as error:
            if "record" not in fields and any(flaw.loc == "/record" for flaw in error.errors):
                # the model records by default, and ids have no place among numbers
                own = None if own is None else {*own, "id"}
                return await self._decided(table, features, {**fields, "ids": new_ids(len(table))}, own)
            if features is None or await self._features(fresh=True) == features:
                raise
        return await self._decided(table, self._cached, fields, own)  # the name or the alias has another version now

    def _once(self, call: Call, fields: Mapping[str, Any]) -> Call:
        """The call, repeated after a lost answer only where that records no decision twice.

        Decisions with ids are recorded once, and an array as answer has none that are recorded without ids.
        """
        is_safe = not fields.keys().isdisjoint(("record", "ids")) or call.headers.get("Accept") == NPY
        return call if is_safe else replace(call, repeatable=self._records_nothing)

    async def _records_nothing(self) -> bool:
        """Whether the model records no decisions of requests that do not ask for it; False where this is not known."""
        try:
            return not await self._records()
        except PayoffError:
            return False

    async def _records(self) -> bool:
        """Whether the model records the decisions of requests that do not ask for it."""
        found = await self._link.document(Call("GET", self._path), RECORDING)
        return bool(found["recording"]["record"])

    async def _decided(
        self, table: Table, features: Features | None, fields: Mapping[str, Any], own: Collection[str] | None
    ) -> Decisions:
        if features is not None:
            features.check(table, own)
        as_json = is_json(table, features, fields)
        size = part_rows(table, features, fields, as_json=as_json)
        reference = self.reference
        if not as_json or size < len(table):  # columns without names, or several requests: of one version
            features = await self._features(fresh=True)
            reference = features.model
            features.check(table, own)
            features = features if table.names is not None else None
        if size < len(table):
            fields = await pinned(MatrixMethods(self._link, self._path), fields)

        async def part(start: int) -> Decisions:
            sent = {"model": reference, **of_part(fields, start, start + size)}
            return await self._part(table, start, size, features, sent, as_json=as_json)

        starts = range(0, max(len(table), 1), size)
        return joined(await self._link.wire.each([partial(part, start) for start in starts]))

    async def _part(
        self,
        table: Table,
        start: int,
        size: int,
        features: Features | None,
        fields: Mapping[str, Any],
        *,
        as_json: bool,
    ) -> Decisions:
        part = table if size >= len(table) else table.part(start, start + size)
        of_table = False
        read = partial(decisions_of, rows=len(part))
        try:
            call, of_table = predict_call("/predict", part, features, fields, as_json=as_json)
            try:
                return await self._link.read(self._once(call, fields), read)
            except TooLarge as error:
                if not of_table or "Payoff-Answer" not in error.detail:
                    raise
            call, _ = predict_call("/predict", part, features, fields, as_json=as_json, accept=JSON)
            return await self._link.read(self._once(call, fields), read)
        except PayoffError as error:
            columns = features.names if features is not None else table.names or ()
            raise located(error, columns, lambda i: table.label(start + i), of_table=of_table) from None

    async def _decide(self, data: Any, *, explain: bool = False, record: Any = None, **stakes: Unpack[Stakes]) -> Any:
        """The action with the largest expected benefit for each row.

        `data` is a frame of pandas, polars or pyarrow, a list of objects, one object, or an array with the features in
        the model's order. The result has the same type (an array gives an object of columns) and the frame's index:
        columns that the model does not use, then `decision`, `p:<class>` and `benefit:<action>`; `value` from a model
        of numbers. `benefits` are `{class: {action: number}}`, a matrix with `actions`, or the name of a saved one (see
        `matrices`). `record` is True, the name of a column of ids, or `{"ids": […], "instances": bool}`. Warnings of
        the service are PayoffWarnings.

        Large tables go as NumPy arrays or Arrow streams, in several requests to one version; with `limits` in one.
        Raises Invalid, whose `errors` name row and column of `data`, and ValueError where a column of `data` has a name
        of the result; nothing is sent then.
        """
        table = table_of(data)
        own = {"runner_up", "margin", "contribution:"} if explain else set()
        own |= {"propensity"} if stakes.get("explore") else set()
        own |= {"id"} if await self._makes_ids(table, record) else set()
        answer = await self._answered(table, stakes, explain=explain, record=record, own=own)
        warn(answer.warnings)
        kept = self._cached.kept(table) if self._cached is not None else []
        columns = answer.columns()
        if isinstance(record, str):
            columns.pop("id", None)  # the frame has them
        return table.result(kept, columns)

    async def _makes_ids(self, table: Table, record: Any) -> bool:
        """Whether the result has new ids; what the model does by default is asked only where a column would collide."""
        if record is None:
            return "id" in (table.names or ()) and await self._records()
        return record is not False and not isinstance(record, str)

    async def _explain(self, data: Any, **stakes: Unpack[Stakes]) -> Any:
        """`decide` with `runner_up`, `margin` and `contribution:<feature>` for each row."""
        return await self._decide(data, explain=True, **stakes)

    async def _decide_file(
        self,
        source: Any,
        target: Any,
        *,
        record: bool | str | None = None,
        progress: bool | None = None,
        **stakes: Unpack[FileStakes],
    ) -> dict[str, Any]:
        """Decide for a file of any length, in bounded memory: CSV (also .gz) or Parquet by its suffix.

        The target has the columns that the model does not use, then those of `decide`; it appears when it is complete.
        `record` is True, False, or the name of a column of ids, with which a file that is decided again records nothing
        twice. Returns `rows`, `model` and `warnings`. With limits the file is one request; their figures are returned,
        too.
        """
        features = await self._features(fresh=True)
        shown = self._link.progress if progress is None else progress
        sent = {"record": True, "id": record} if isinstance(record, str) else {"record": record}
        fields = await pinned(MatrixMethods(self._link, self._path), stated(**stakes, **sent))
        unknown = False if record else self._records_nothing
        repeatable = True if isinstance(record, str) or record is False else unknown
        return await decide_file(self._link, features, source, target, fields, shown, repeatable=repeatable)
