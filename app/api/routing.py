"""The kinds of routes: what each reads of a request before its function is called."""

from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
)
from typing import Any, cast, get_origin

from fastapi import Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from pydantic import BaseModel
from starlette.routing import request_response

from app.api.bodies import read, refuse_query
from app.api.codecs.media_types import JSON
from app.api.gate import GatedRoute

_AS_IN_JSON = "as in the JSON body; text or JSON"


class StrictRoute(GatedRoute):
    """A route that takes the query parameters and the JSON body that it documents, and nothing
    else.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        # The rest are parameters of the query, or fields of a model of the query.
        parameters = [
            parameter
            for parameter in get_flat_params(self.dependant)
            if not isinstance(parameter.field_info, params.Path | params.Header)
        ]
        known = [parameter.alias for parameter in parameters]
        lists = [
            parameter.alias
            for parameter in parameters
            if get_origin(parameter.field_info.annotation) is list
        ]
        body_type: type[BaseModel] | None = None
        if self.body_field:
            body_type = cast(type[BaseModel], self.body_field.field_info.annotation)

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                refuse_query(request, known, lists)
            if body_type is not None:
                request = _ReadRequest(request, await read(request, body_type))
            return await handle(request)

        return strict


class _ReadRequest(Request):
    """A request whose body was read, parsed and checked before FastAPI asks for it."""

    def __init__(self, request: Request, document: BaseModel) -> None:
        # `receive` still reports whether the client has disconnected.
        super().__init__(request.scope, request.receive)
        self._document = document

    async def body(self) -> Any:
        return self._document

    async def json(self) -> Any:
        return self._document


class DirectRoute(GatedRoute):
    """A documented route whose function takes the request itself, without dependency injection.

    `body_type` and `examples` document its JSON body, `media_types` those of its binary bodies and
    answers, and `query_type` the query parameters beside these bodies, which stand for the fields
    of JSON.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        body_type: type[BaseModel] | None = None,
        examples: Mapping[str, Any] | None = None,
        media_types: Collection[str] = (),
        query_type: type[BaseModel] | None = None,
        **options: Any,
    ) -> None:
        self.body_type = body_type
        if body_type is not None:
            schema = {"type": "string", "format": "binary"}
            binary = {media_type: {"schema": schema} for media_type in media_types}
            reference = {"$ref": f"#/components/schemas/{body_type.__name__}"}
            values = {
                name: {"value": example} for name, example in (examples or {}).items()
            }
            content = {JSON: {"schema": reference, "examples": values}, **binary}
            options["openapi_extra"] = {
                "requestBody": {"required": True, "content": content}
            }
            if query_type is not None:
                options["openapi_extra"]["parameters"] = list(
                    _parameters(query_type, body_type)
                )
            if binary:
                options["responses"] = {
                    200: {"content": binary},
                    **options["responses"],
                }
        super().__init__(path, endpoint, methods=["POST"], **options)
        self.app = request_response(endpoint)


def _parameters(
    query_type: type[BaseModel], body_type: type[BaseModel]
) -> Iterator[dict[str, Any]]:
    """The query parameters that `read_query` takes, as OpenAPI describes them: mostly fields of the
    JSON body.
    """
    for name, field in query_type.model_fields.items():
        description = field.description or name
        if name in body_type.model_fields:
            description = _AS_IN_JSON
        yield {
            "name": name,
            "in": "query",
            "required": False,
            "description": description,
            "schema": {"type": "string"},
        }
