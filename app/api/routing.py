"""What routes are made of: their kinds, how they read bodies and queries, what they ask for, and where work is done."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar, TypeVarTuple, cast, get_origin

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Query, Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.access.caller import Caller
from app.api.codecs.json import INLINE_BYTES, check_document, parsed, syntax_error
from app.api.codecs.media_types import JSON
from app.api.gate import MAX_AT_ONCE, GatedRoute, charge_of
from app.errors import Busy, NotFound, Unsupported
from app.registry.loaded import Loaded
from app.requests.matrices import MatrixFields
from app.stores import Stores
from payoff.errors import Flaw, Invalid, below, flaws_of, pointer, reject, unknown_at

MATRIX_HEADER: Final = "payoff-matrix"  # of the answer
_RETRY_SECONDS = 2
_ANY = CapacityLimiter(math.inf)  # for what has its thread already
_AS_IN_JSON = "as in the JSON body; text or JSON"
_LONG_BYTES = 1 << 20  # of a body; a longer one takes tenths of a second

_Args = TypeVarTuple("_Args")
_Body = TypeVar("_Body", bound=BaseModel)
_Result = TypeVar("_Result")


class StrictRoute(GatedRoute):
    """A route that takes the query parameters and the JSON body that it documents, and nothing else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        flat, others = (
            get_flat_params(self.dependant),
            params.Path | params.Header,
        )  # else of the query, or of its model
        parameters = [each for each in flat if not isinstance(each.field_info, others)]
        known = [each.alias for each in parameters]
        lists = [
            each.alias for each in parameters if get_origin(each.field_info.annotation) is list
        ]
        body_type = (
            cast(type[BaseModel], self.body_field.field_info.annotation)
            if self.body_field
            else None
        )

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                refuse_query(request, known, lists)
            if body_type is not None:
                request = _ReadRequest(request, await read(request, body_type))
            return await handle(request)

        return strict


class _ReadRequest(Request):
    """A request whose body was read, parsed and checked before FastAPI asks for it."""

    def __init__(self, read: Request, document: BaseModel) -> None:
        super().__init__(read.scope, read.receive)  # which tells whether the client is still there
        self._document = document

    async def body(self) -> Any:
        return self._document

    async def json(self) -> Any:
        return self._document


class DirectRoute(GatedRoute):
    """A documented route whose function is given the request itself: no dependency injection on the way.

    `body_type` and `examples` document its JSON body, `others` the media types of the other bodies and answers, and
    `query_type` the query parameters beside these bodies, which stand for the fields of JSON.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        body_type: type[BaseModel] | None = None,
        examples: Mapping[str, Any] | None = None,
        others: Collection[str] = (),
        query_type: type[BaseModel] | None = None,
        **options: Any,
    ) -> None:
        self.body_type = body_type
        if body_type is not None:
            binary = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in others}
            schema = {"$ref": f"#/components/schemas/{body_type.__name__}"}
            shown = {name: {"value": example} for name, example in (examples or {}).items()}
            content = {JSON: {"schema": schema, "examples": shown}, **binary}
            options["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
            if query_type is not None:
                options["openapi_extra"]["parameters"] = list(_parameters(query_type, body_type))
            if binary:
                options["responses"] = {200: {"content": binary}, **options["responses"]}
        super().__init__(path, endpoint, methods=["POST"], **options)

        async def direct(scope: Scope, receive: Receive, send: Send) -> None:
            response: Response = await self.endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = direct


def _parameters(
    query_type: type[BaseModel], body_type: type[BaseModel]
) -> Iterator[dict[str, Any]]:
    """The query parameters that `read_query` takes, as OpenAPI describes them: most are fields of the JSON body."""
    for name, each in query_type.model_fields.items():
        words = _AS_IN_JSON if name in body_type.model_fields else each.description or name
        yield {
            "name": name,
            "in": "query",
            "required": False,
            "description": words,
            "schema": {"type": "string"},
        }


# How bodies and queries are read, and in which form is answered


def media_type_of_body(request: Request, others: Collection[str] = ()) -> str:
    """The media type of the body, JSON where none is named; Unsupported where it is neither that nor of `others`."""
    kind = str(request.headers.get("content-type", JSON)).partition(";")[0].strip().lower()
    if kind == JSON or kind in others:
        return kind
    if kind.startswith("application/") and kind.endswith("+json"):
        return JSON
    raise unsupported(kind, (JSON, *others))


def unsupported(kind: str, known: Collection[str]) -> Unsupported:
    """The error that a body comes in a media type that is none of the `known` ones."""
    arrived = (
        f"the body comes as {kind[:60]!r}" if kind else "the body comes without a Content-Type"
    )
    if kind == "application/x-www-form-urlencoded":
        arrived += ", which curl -d sends, joining the lines of a file; use --data-binary @file"
    return Unsupported(f"{arrived}; send {', '.join(known)}, and say so in Content-Type")


def media_type_of_answer(request: Request, known: Collection[str]) -> str:
    """The media type in `Accept` that is among the `known` and wanted most, JSON where none is."""
    accept = request.headers.get("accept", "*/*")
    if accept in ("*/*", JSON):  # nearly always, and then there is no preference to evaluate
        return JSON
    best, most = JSON, 0.0
    for wanted in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in wanted.split(";"))
        weight = next((_weight(part[2:]) for part in parameters if part.startswith("q=")), 1.0)
        if kind in known and weight > most:
            best, most = kind, weight
    return best


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


async def read(request: Request, body_type: type[_Body]) -> _Body:
    """The JSON body, checked; raises Unsupported for another media type, and what `parsed` and `checked` raise."""
    media_type_of_body(request)
    if "Inference-Header-Content-Length" in request.headers:  # after so many bytes the JSON ends
        raise Unsupported(
            "binary data are not supported; send 'data' as JSON (in Triton's client binary_data=False)"
        )
    body = await request.body()
    return await run(
        request, pace_of(len(body)), lambda: checked(body_type, parsed(body, charge_of(request)))
    )


Pace = Literal["now", "in a thread", "long"]
"""Where work is done: on the event loop, in a thread, or in one of the few for long work."""


def pace_of(size: int) -> Pace:
    """Where a body of so many bytes is read."""
    return "now" if size <= INLINE_BYTES else "in a thread" if size <= _LONG_BYTES else "long"


async def run(request: Request, pace: Pace, work: Callable[[], _Result]) -> _Result:
    """What `work` returns."""
    if pace == "now":
        return work()
    limiter = limiters(request).short if pace == "in a thread" else limiters(request).long
    return await limiter.run(request, work)


def checked(body_type: type[_Body], fields: Any) -> _Body:
    """The fields as `body_type`; Invalid with every place that does not fit."""
    try:
        return body_type.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise Invalid.of(flaws_of(details, fields)) from error


def refuse_query(
    request: Request, known: Collection[str] = (), lists: Collection[str] = ()
) -> None:
    """Invalid with the name of each query parameter that is not `known`, or comes twice and is not in `lists`."""
    counts = Counter(name for name, _ in request.query_params.multi_items())
    reject(
        Flaw(pointer(name), "this query parameter is given twice")
        if name in known
        else unknown_at(pointer(name), "query parameter", name, known)
        for name, count in counts.items()
        if name not in known or (count > 1 and name not in lists)
    )


def read_query(request: Request, body_type: type[_Body], text_fields: Collection[str]) -> _Body:
    """The query parameters, each parsed as JSON where it is JSON; the others, and `text_fields`, are text."""
    refuse_query(request, body_type.model_fields)
    texts = request.query_params.items()
    return checked(
        body_type,
        {name: text if name in text_fields else parsed_text(name, text) for name, text in texts},
    )


def parsed_text(name: str, text: str) -> Any:
    """The value of a field that comes as text: parsed where it is JSON, else the text; Invalid below `/name`, also
    where a list or an object is begun that is not JSON.
    """
    written = text.encode()
    try:
        value = orjson.loads(written)
    except orjson.JSONDecodeError as error:
        if text.startswith(("[", "{")):
            raise Invalid.at(
                pointer(name), f"{name!r} is not JSON: {syntax_error(error)}"
            ) from error
        return text
    with below(pointer(name)):
        check_document(value, written)
    return value


# What routes ask for


def ports_of(request: Request) -> Stores:
    """The stores."""
    return cast(Stores, request.app.state.stores)


async def _ports(request: Request) -> Stores:
    """The stores as a dependency: no thread is needed, of which there may be none left."""
    return cast(Stores, request.app.state.stores)


async def _caller(request: Request) -> Caller:
    """Who asks, as a dependency."""
    return caller_of(request)


def caller_of(request: Request) -> Caller:
    """Who asks, as the gate found out."""
    return cast(Caller, request.scope["state"]["caller"])


PortsDep = Annotated[Stores, Depends(_ports)]
CallerDep = Annotated[Caller, Depends(_caller)]
PageSize = Annotated[int, Query(ge=1, le=500)]
PageToken = Annotated[
    str | None, Query(max_length=200, description="`next_page_token` of the page before")
]


async def only_own_models(request: Request) -> None:
    """Forbidden where the path names a model that the key is not for."""
    named = request.path_params.get("name", request.path_params.get("ref"))
    if named is not None:
        caller_of(request).need_model(named)


async def loaded(request: Request, reference: str) -> Loaded:
    """The model, at once if it is in memory; Forbidden where the key is for others, NotFound at `/model`.

    A store that hangs holds the few threads that load, and none of those that answer.
    """
    caller_of(request).need_model(reference)
    registry = ports_of(request).registry
    model = registry.cache.get(reference)
    return await limiters(request).load.run(registry.load, reference) if model is None else model


async def loaded_by_path(request: Request, reference: str) -> Loaded:
    """The model that the path names: errors have no place in the body."""
    try:
        return await loaded(request, reference)
    except NotFound as error:
        raise NotFound(error.detail) from error


def with_matrix(response: Response, sent: MatrixFields) -> Response:
    """The answer, with the version of the saved matrix that was used."""
    if sent.saved is not None:
        response.headers[MATRIX_HEADER] = sent.saved
    return response


# Threads, so that one kind of work cannot occupy those of another


@dataclass
class _Share:
    """What one key has of a limiter: `threads`, and the `calls` that run or wait."""

    threads: CapacityLimiter
    calls: int = 0


class Limiter:
    """Runs functions in at most `threads` threads at once, half of them for one key.

    Of each key `waiting` more calls may wait: those of one key take no place from another's.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._count = threads
        self._threads = CapacityLimiter(threads)
        self._most_calls = threads + waiting
        self._shares: dict[str | None, _Share] = {}  # of the keys with calls

    async def run(
        self, request: Request, function: Callable[[*_Args], _Result], *args: *_Args
    ) -> _Result:
        """The function's result, which `request` waits for; Busy (503) where too many calls of its key wait.

        Nothing is begun for a client that has gone while it waited; what has begun is bounded by its own limits.
        """
        share = self._share_of(request)
        if share.calls >= self._most_calls:
            raise Busy(
                "too many requests of this kind are waiting; try again later",
                seconds=_RETRY_SECONDS,
            )
        waits = any(limiter.available_tokens < 1 for limiter in (share.threads, self._threads))
        share.calls += 1
        try:
            async with share.threads, self._threads:
                if waits and await request.is_disconnected():
                    raise ClientDisconnect
                return await to_thread.run_sync(function, *args, limiter=_ANY)
        finally:
            share.calls -= 1

    def _share_of(self, request: Request) -> _Share:
        """That of the key of the request; callers without a key share all threads."""
        self._shares = {key: share for key, share in self._shares.items() if share.calls}
        caller = request.scope["state"].get("caller")
        key = caller.client if caller else None
        threads = self._count if key is None else max(self._count // 2, 1)
        return self._shares.setdefault(key, _Share(CapacityLimiter(threads)))


class Once:
    """Runs functions in at most `threads` threads at once, each once for all who ask meanwhile; they hold no thread."""

    def __init__(self, threads: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, function: Callable[[*_Args], _Result], *args: *_Args) -> _Result:
        """The function's result, for all who ask with the same arguments; a caller that leaves ends it for no other."""
        key = (function, *args)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(to_thread.run_sync(function, *args, limiter=self._threads))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
        return cast(_Result, await asyncio.shield(task))


@dataclass(frozen=True)
class Limiters:
    """`health` for probes, `metrics` for `/metrics`, which may wait for the job table, `retrieve`
    for `/retrieve`, `short` for work that takes up to a second: reading bodies, decisions, the next
    features; `long` for work that takes seconds: simulations, reports on a hold-out, charts,
    parsing long bodies; `upload` for reading data sets, `load` for models that are not in memory,
    `looks` for jobs that are followed. The framework's forty threads wait for the database and the
    stores.
    """

    health: Limiter = field(default_factory=lambda: Limiter(2, 200))
    metrics: Limiter = field(default_factory=lambda: Limiter(2, 20))
    # of a million numbers: a core and 200 MB for 1 s
    retrieve: Limiter = field(default_factory=lambda: Limiter(4, 60))
    # more threads take the interpreter's lock from the event loop, and compute no faster
    short: Limiter = field(default_factory=lambda: Limiter(4, MAX_AT_ONCE))
    long: Limiter = field(default_factory=lambda: Limiter(2, 16))
    upload: Limiter = field(
        default_factory=lambda: Limiter(2, 30)
    )  # each with a process that reads the file
    load: Once = field(default_factory=lambda: Once(8))
    looks: Once = field(default_factory=lambda: Once(1))


def limiters(request: Request) -> Limiters:
    """The limiters of the application."""
    return cast(Limiters, request.app.state.limiters)
