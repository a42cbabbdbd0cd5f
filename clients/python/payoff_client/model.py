"""One model: decisions, explanations, sets, questions, outcomes, and its versions and aliases."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from payoff_client.answers import Report, warn
from payoff_client.bodies import predict_call, recorded, stated
from payoff_client.deciding import DecideMethods
from payoff_client.errors import InvalidAnswer, PayoffError, located
from payoff_client.matrices import AsyncMatrices, Matrices
from payoff_client.progress import in_notebook
from payoff_client.shapes import DESCRIPTION, PERHAPS_WARNED, REPORT, SETS, STATE, STATES, Shape
from payoff_client.signatures import readable
from payoff_client.stakes import AcquireOptions, BenefitOptions, Benefits, OutcomesOptions, RetrieveOptions
from payoff_client.tables import Rows, table_of
from payoff_client.values import Table, plain
from payoff_client.wire import Call, Link, blocking, post, put, step

_SVG = "image/svg+xml"


@readable
class ModelMethods(DecideMethods):
    """All methods of a model, as coroutines."""

    async def _describe(self) -> dict[str, Any]:
        """Versions, aliases and the history of the aliases."""
        found: dict[str, Any] = await self._link.document(Call("GET", self._path), DESCRIPTION)
        return found

    async def _set_alias(self, alias: str, version: int) -> None:
        """Point an alias at a version."""
        call = put(f"{self._path}/aliases/{step(alias)}", {"version": version})
        warn((await self._link.document(call, PERHAPS_WARNED)).get("warnings") or ())

    async def _delete_alias(self, alias: str) -> None:
        """Delete an alias; its version stays."""
        await self._link.request(Call("DELETE", f"{self._path}/aliases/{step(alias)}", repeatable=False))

    async def _retrieve(
        self,
        data: Any,
        /,
        *,
        loss: str | Mapping[str, Any] = "f_beta",
        setting: str = "binary",
        **options: Unpack[RetrieveOptions],
    ) -> Report:
        """The set with the smallest expected loss: of the rows (`binary`), or of the labels or classes of each row.

        `selected` has positions of rows, for `frame.iloc`, or labels. `options` are the other fields of `/retrieve`.
        """
        table = table_of(data)
        features = None if table.names is None else await self._features(fresh=True)
        if features is not None:
            features.check(table)
        fields = {"model": self.reference, "setting": setting, **stated(loss=_named(loss), **options)}
        call, of_table = predict_call("/retrieve", table, features, fields, as_json=True)
        try:
            return Report(await self._link.document(call, SETS))
        except PayoffError as error:
            raise located(error, table.names or (), table.label, of_table=of_table) from None

    async def _acquire(
        self,
        known: Any,
        /,
        ask: Callable[[str], Any] | None = None,
        *,
        unavailable: Sequence[str] = (),
        record: Any = None,
        **options: Unpack[AcquireOptions],
    ) -> Report:
        """What to learn next about a case, or the decision.

        `known` is an object of values by feature. `ask(feature)` returns a value, or None where it cannot be had; it is
        called until the case is decided. Without `ask` the answer is the state of the case. The answer's `known` has
        all values. `record` is as in `decide`; `options` are `budget`, `benefits`, `actions`, `feature_costs`,
        `target`. For a list of objects or a frame, whose empty values are not known yet, `results` has the state of
        each.
        """
        fields = {"model": self.reference, **stated(unavailable=list(unavailable) or None, **options)}
        table = table_of(known)
        if record is not None:
            fields["record"] = recorded(table, record)
        if not isinstance(known, Mapping):
            return await self._acquire_many(table, fields)
        values = {str(name): plain(value) for name, value in known.items()}
        while True:
            call = self._once(post("/acquire", {**fields, "known": values}), fields)
            state = Report(await self._link.document(call, STATE))
            state["known"] = dict(values)
            if ask is None or state["status"] != "acquire":
                return state
            feature = state["next"]["feature"]
            if feature in values:
                raise InvalidAnswer(f"the service asks for {feature!r} again")
            answer = ask(feature)
            values[feature] = plain(await answer if inspect.isawaitable(answer) else answer)

    async def _acquire_many(self, table: Table, fields: Mapping[str, Any]) -> Report:
        names = table.names or []
        if isinstance(table, Rows):
            rows = [{name: plain(value) for name, value in row.items()} for row in table.data]
        else:
            columns = [table.column(name) for name in names]
            filled = [zip(names, row, strict=True) for row in zip(*columns, strict=True)]
            rows = [{name: value for name, value in row if value is not None} for row in filled]
        try:
            call = self._once(post("/acquire", {**fields, "instances": rows}), fields)
            return Report(await self._link.document(call, STATES))
        except PayoffError as error:
            raise located(error, names, table.label) from None

    async def _benefit(
        self, benefits: Benefits, /, *, chart: bool | None = None, **options: Unpack[BenefitOptions]
    ) -> Report:
        """What a matrix would have earned on the version's hold-out, per row, in the unit of `benefits`.

        `chart` draws it; by default in notebooks. `options` are `actions`, `priors`, `points`. Raises Conflict where
        the version has no hold-out.
        """
        path = f"/models/{step(self.reference, safe=':@')}/benefit"
        return await charted(self._link, post(path, stated(benefits=benefits, **options)), chart)

    async def _outcomes(self, /, **asked: Unpack[OutcomesOptions]) -> Report:
        """What became of recorded decisions; `asked` are `since` and `until` (ISO 8601) and `by`.

        Amounts are in the unit of the matrices, per decision.
        """
        call = Call("GET", f"/models/{step(self.reference, safe=':@')}/outcomes", stated(**asked))
        return Report(await self._link.document(call, REPORT))


class AsyncModel(ModelMethods):
    """A model of an `AsyncPayoff`."""

    @property
    def matrices(self) -> AsyncMatrices:
        """The benefit matrices saved for it."""
        return AsyncMatrices(self._link, self._path)

    card = ModelMethods._card
    describe = ModelMethods._describe
    set_alias = ModelMethods._set_alias
    delete_alias = ModelMethods._delete_alias
    answer = ModelMethods._answer
    decide = ModelMethods._decide
    explain = ModelMethods._explain
    retrieve = ModelMethods._retrieve
    acquire = ModelMethods._acquire
    benefit = ModelMethods._benefit
    outcomes = ModelMethods._outcomes
    decide_file = ModelMethods._decide_file


class Model(ModelMethods):
    """A model of a `Payoff`."""

    @property
    def matrices(self) -> Matrices:
        """The benefit matrices saved for it."""
        return Matrices(self._link, self._path)

    card = blocking(ModelMethods._card)
    describe = blocking(ModelMethods._describe)
    set_alias = blocking(ModelMethods._set_alias)
    delete_alias = blocking(ModelMethods._delete_alias)
    answer = blocking(ModelMethods._answer)
    decide = blocking(ModelMethods._decide)
    explain = blocking(ModelMethods._explain)
    retrieve = blocking(ModelMethods._retrieve)
    acquire = blocking(ModelMethods._acquire)
    benefit = blocking(ModelMethods._benefit)
    outcomes = blocking(ModelMethods._outcomes)
    decide_file = blocking(ModelMethods._decide_file)


async def charted(link: Link, call: Call, chart: bool | None, shape: Shape = REPORT) -> Report:
    """The answer of a call, with its chart where it is wanted, by default in notebooks."""
    report = Report(await link.document(call, shape))
    if in_notebook() if chart is None else chart:
        drawn = Call(call.method, call.path, call.params, call.content, {**call.headers, "Accept": _SVG})
        report.svg = await link.read(drawn, lambda answer: answer.content.decode())
    return report


def _named(loss: str | Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": loss} if isinstance(loss, str) else loss
