"""What each operation is to need, written down a second time, and an independent way to find it.

Paths are compared segment by segment here; the application matches regular expressions.
"""

from __future__ import annotations

from app.access.caller import Scope

OPEN = None
ANY_KEY: frozenset[Scope] = frozenset()
PREDICT = frozenset({Scope.PREDICT})
TRAIN = frozenset({Scope.TRAIN})
EITHER = PREDICT | TRAIN
ADMIN = frozenset({Scope.ADMIN})
STATIC = "/static-offline-docs"

NEEDED: dict[tuple[str, str], frozenset[Scope] | None] = {
    ("POST", "/predict"): PREDICT,
    ("POST", "/retrieve"): PREDICT,
    ("POST", "/acquire"): PREDICT,
    ("POST", "/acquire/simulate"): PREDICT,
    ("POST", "/models/{ref}/benefit"): EITHER,
    ("GET", "/models"): EITHER,
    ("GET", "/models/{name}"): EITHER,
    ("GET", "/models/{name}/versions/{version}"): EITHER,
    ("GET", "/models/{name}/versions/{version}/artifact"): TRAIN,
    ("PUT", "/models/{name}/aliases/{alias}"): TRAIN,
    ("DELETE", "/models/{name}/aliases/{alias}"): TRAIN,
    ("DELETE", "/models/{name}/versions/{version}"): TRAIN,
    ("DELETE", "/models/{name}"): TRAIN,
    ("POST", "/train"): TRAIN,
    ("GET", "/train"): TRAIN,
    ("GET", "/train/{job_id}"): TRAIN,
    ("GET", "/train/{job_id}/events"): TRAIN,
    ("DELETE", "/train/{job_id}"): TRAIN,
    ("POST", "/compare"): TRAIN,
    ("GET", "/compare"): TRAIN,
    ("GET", "/compare/{job_id}"): TRAIN,
    ("GET", "/compare/{job_id}/events"): TRAIN,
    ("DELETE", "/compare/{job_id}"): TRAIN,
    ("POST", "/datasets"): TRAIN,
    ("GET", "/datasets"): TRAIN,
    ("GET", "/datasets/{dataset_id}"): TRAIN,
    ("DELETE", "/datasets/{dataset_id}"): TRAIN,
    ("GET", "/audit"): ADMIN,
    ("GET", "/metrics"): ANY_KEY,
    ("GET", "/access"): ANY_KEY,
    ("GET", "/health/live"): OPEN,
    ("HEAD", "/health/live"): OPEN,
    ("GET", "/health/ready"): OPEN,
    ("HEAD", "/health/ready"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", STATIC): OPEN,
    ("HEAD", STATIC): OPEN,
}


def expected(method: str, path: str, scopes: frozenset[Scope] | None, root: str = "") -> int | str:
    """The template of the route that a caller with `scopes` (None: no key) is to reach, or the status of the refusal.

    `path` is decoded, and below `root` if it begins with it.
    """
    if not all(character.isprintable() for character in path):
        return 422
    if root and path.startswith(root + "/"):
        path = path.removeprefix(root)
    templates = {template for _, template in NEEDED if _fits(template, path)}
    found = next((template for template in sorted(templates) if (method, template) in NEEDED), None)
    needed = ADMIN if found is None else NEEDED[method, found]
    if needed is not OPEN:
        if scopes is None:
            return 401
        if needed and not scopes & (needed | ADMIN):
            return 403
    return found or (405 if templates else 404)


def _fits(template: str, path: str) -> bool:
    if template == STATIC:
        return path.startswith(STATIC + "/")
    wanted, sent = template.split("/"), path.split("/")
    return len(wanted) == len(sent) and all(
        one != "" if part.startswith("{") else part == one for part, one in zip(wanted, sent, strict=True)
    )
