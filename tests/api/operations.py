"""The operations of the OpenAPI document, with the examples that it gives for them."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.api.app import create_app
from app.service import wire
from tests.conftest import settings_for


@dataclass(frozen=True)
class Operation:
    """An operation: its method in capitals, its path as a template, and its part of the document."""

    method: str
    path: str
    document: dict[str, Any]

    @property
    def url(self) -> str:
        """The path with the example of each of its parameters."""
        url = self.path
        for parameter in self.document.get("parameters", []):
            if parameter["in"] == "path":
                value = example_of(parameter)
                assert value is not None, (
                    f"{self.method} {self.path}: no example for {parameter['name']}"
                )
                url = url.replace("{" + parameter["name"] + "}", str(value))
        return url

    @property
    def takes_json(self) -> bool:
        return "application/json" in self._contents

    @property
    def body(self) -> Any:
        """The example of its JSON body."""
        example = example_of(self._contents["application/json"])
        assert example is not None, f"{self.method} {self.path}: no example of its body"
        return example

    @property
    def fields(self) -> set[str]:
        """The names of the fields of its JSON body."""
        found: set[str] = set()
        schemas = [self._contents["application/json"]["schema"]]
        while schemas:
            schema = schemas.pop()
            found |= schema.get("properties", {}).keys()
            schemas += [
                each
                for way in ("anyOf", "oneOf", "allOf")
                for each in schema.get(way, ())
            ]
            if "$ref" in schema:
                schemas.append(
                    _document()["components"]["schemas"][
                        schema["$ref"].rsplit("/", 1)[1]
                    ]
                )
        return found

    @property
    def _contents(self) -> dict[str, Any]:
        contents: dict[str, Any] = self.document.get("requestBody", {}).get(
            "content", {}
        )
        return contents


@cache
def operations() -> tuple[Operation, ...]:
    """The operations that the document lists, of an application made for this.

    Not those of the Open Inference Protocol, whose errors have a form of their own: see test_inference_protocol.py.
    """
    return tuple(
        Operation(method.upper(), path, operation)
        for path, methods in _document()["paths"].items()
        if not path.startswith("/v2")
        for method, operation in methods.items()
    )


@cache
def _document() -> Any:
    with TemporaryDirectory() as folder:
        service = wire(settings_for(Path(folder), workers=0))
        try:
            return json.loads(json.dumps(create_app(service).openapi()))
        finally:
            service.stores.database.close()


def example_of(described: dict[str, Any]) -> Any:
    """The first example of a parameter or of a body; None without any."""
    if "examples" in described:
        return next(iter(described["examples"].values()))["value"]
    return described.get("example")
