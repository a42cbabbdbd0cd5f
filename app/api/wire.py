"""What the routes' wire types share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="lower-case letters, digits, _ and -")]


class WireModel(BaseModel):
    """A document on the wire: unknown fields are refused, and NaN or Infinity neither come in nor go out."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ModelVersion(BaseModel):
    """A published version of a model."""

    name: str
    version: int


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Parse strictly: the standard library would let NaN and Infinity in."""
        if not hasattr(self, "_json"):
            self._json = orjson.loads(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route whose JSON body is what RFC 8259 says, no more."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strict
