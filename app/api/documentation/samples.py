"""For each error that an operation documents, a body that the service answers so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from app.access.caller import Caller, Scope
from app.api.errors import MEDIA_TYPE, in_form, respond
from app.api.middleware.permits import SCHEME
from app.api.middleware.sites import Sites
from app.api.routes.datasets import EXAMPLE_ID
from app.errors import Conflict, Damaged, Forbidden, Invalid, KeyMissing, NotFound, PayoffError, pointer, unknown
from app.jobs.job import unknown_job
from app.registry.snapshot import unknown_model
from app.usecases.outcomes import NO_DECISION

_MODEL = "triage"
_QUERY = "verbose"  # a query parameter that no operation has
_DATASETS = {"/train": "/data/dataset", "/compare": "/dataset"}
_LEARNING = frozenset({"/train", "/calibrate", "/models/{name}/versions"})
_FOREIGN = {"headers": [(b"host", b"example.org")], "method": "GET"}
_CONFLICTS: dict[str, PayoffError] = {
    "/compare/{job_id}": Conflict("the comparison has no table to draw: it is running"),
    "/datasets/{dataset_id}": Conflict(f"a queued or running job uses {EXAMPLE_ID}; wait for it or cancel it"),
    "/models/{name}/versions/{version}": Conflict(
        f"{_MODEL}@champion points at version 1 (1 such aliases): move it first"
    ),
    "/models/{ref}/benefit": Conflict(
        f"{_MODEL} has no hold-out to judge on; train it with a larger 'holdout' or more rows"
    ),
}
_OF_DATA = Damaged(f"the stored table of {EXAMPLE_ID} does not match its digest; delete it and upload it again")
_OF_MODEL = Damaged(f"{_MODEL}/1/model.joblib does not have the digest in its card: it was changed or damaged")


def add_samples(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add an `example` to the answers 401, 403, 404, 409 and 422 of an operation."""
    for status, answer in operation["responses"].items():
        content = answer.get("content", {}).get(MEDIA_TYPE)
        if content is not None and status in _SAMPLES:
            response = in_form({"path": path}, respond(_SAMPLES[status](path, method, operation)))
            content["example"] = orjson.loads(bytes(response.body))


def _key_missing(_path: str, _method: str, _operation: dict[str, Any]) -> PayoffError:
    return KeyMissing("send a key in the X-API-Key header, or as a bearer token")


def _forbidden(_path: str, _method: str, operation: dict[str, Any]) -> PayoffError:
    scopes = frozenset(Scope(name) for one in operation["security"] for name in one[SCHEME])
    try:
        Caller("dashboard", scopes=frozenset()).need(scopes)
        Sites().check(_FOREIGN)  # where any key will do, only a service without keys refuses
    except Forbidden as error:
        return error
    raise AssertionError


def _not_found(path: str, method: str, operation: dict[str, Any]) -> PayoffError:
    for parameter in operation.get("parameters", []):
        if parameter["name"] == "job_id":
            return unknown_job(next(iter(parameter["examples"].values()))["value"])
    if "{dataset_id}" in path or path in _DATASETS:
        missing = NotFound(f"there is no data set {EXAMPLE_ID!r}")
        return missing.at_place(_DATASETS[path]) if path in _DATASETS else missing
    if path == "/outcomes/{id}":
        return NotFound(NO_DECISION)
    if method == "put" and "{alias}" in path:
        return unknown_model(_MODEL).at_place("/version")
    return unknown_model(_MODEL) if "{" in path else unknown_model(_MODEL).at_place("/model")


def _conflict(path: str, method: str, _operation: dict[str, Any]) -> PayoffError:
    if method == "delete" and "{job_id}" in path:
        return Conflict("cancel is not possible: the job is succeeded")
    return _CONFLICTS.get(path, _OF_DATA if path in _LEARNING else _OF_MODEL)


def _invalid(_path: str, _method: str, operation: dict[str, Any]) -> PayoffError:
    known = [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
    return Invalid.at(pointer(_QUERY), unknown("query parameter", _QUERY, known))


_SAMPLES: dict[str, Callable[[str, str, dict[str, Any]], PayoffError]] = {
    "401": _key_missing,
    "403": _forbidden,
    "404": _not_found,
    "409": _conflict,
    "422": _invalid,
}
