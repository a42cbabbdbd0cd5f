"""Which scope each operation needs: all of them, in one table.

Training includes looking at jobs and data sets, downloading what was trained, moving aliases and deleting: whoever may
publish a version decides what is served anyway. `train` does not include `predict`, nor the reverse.
"""

from __future__ import annotations

from collections import defaultdict

from starlette.routing import compile_path
from starlette.types import Scope as Connection

from app.access.caller import Scope

ANY_KEY: frozenset[Scope] = frozenset()
PREDICT = frozenset({Scope.PREDICT})
TRAIN = frozenset({Scope.TRAIN})
EITHER = PREDICT | TRAIN
ADMIN = frozenset({Scope.ADMIN})

NEEDED: dict[tuple[str, str], frozenset[Scope]] = {
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
    ("GET", "/metrics"): ANY_KEY,  # also for a key without scopes, which is what a scraper should have
}

_OPEN = frozenset({"/docs", "/openapi.json"})
_OPEN_BELOW = ("/health/", "/docs/", "/static-offline-docs/")
_PATTERNS = defaultdict(list)
for (_method, _template), _scopes in NEEDED.items():
    if "{" in _template:
        _PATTERNS[_method].append((compile_path(_template)[0], _scopes))


def path_of(connection: Connection) -> str:
    """The path as the routes know it: without the prefix under which a proxy serves the application."""
    path: str = connection["path"]
    root = connection.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def is_open(path: str) -> bool:
    """Whether everybody may come here, with a key or without: health, and the documentation."""
    return path in _OPEN or path.startswith(_OPEN_BELOW)


def needed(method: str, path: str) -> frozenset[Scope]:
    """The scopes of which one is needed. A path that is no operation has nothing behind it: any key gets its 404."""
    scopes = NEEDED.get((method, path))
    if scopes is not None:
        return scopes
    return next((scopes for pattern, scopes in _PATTERNS[method] if pattern.match(path)), ANY_KEY)
