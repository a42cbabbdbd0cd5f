"""What each operation is to need, as docs/reference/scopes.md says, and an independent way to find it.

Nothing here asks the code that is under test. An operation without a row is expected to need `admin`.
Paths are compared segment by segment here; the application matches regular expressions.
"""

import re
from pathlib import Path

from app.access.caller import Scope

OPEN = None
ANY_KEY: frozenset[Scope] = frozenset()
PREDICT = frozenset({Scope.PREDICT})
TRAIN = frozenset({Scope.TRAIN})
REVIEW = frozenset({Scope.REVIEW})
EITHER = PREDICT | TRAIN
ADMIN = frozenset({Scope.ADMIN})
STATIC = {
    "/static-offline-docs": "swagger-ui.css",
    "/console": "main.js",
}  # and a file of each

REST = {
    "/outcomes/{id}",
    "/decisions/{id}",
}  # whose last part is the rest of the path, slashes and all: ids are the callers'

_SCOPES = {
    "open": OPEN,
    "any key": ANY_KEY,
    "`predict`": PREDICT,
    "`train`": TRAIN,
    "`predict` or `train`": EITHER,
    "`predict` or `review`": PREDICT | REVIEW,
    "`review` or `train`": TRAIN | REVIEW,
    "`admin`": ADMIN,
    "`metrics`": frozenset({Scope.METRICS}),
}
_DOCUMENT = (Path(__file__).parents[2] / "docs" / "reference" / "scopes.md").read_text()
_ROWS = [
    (*request.split(" "), scope, threads)
    for scope, threads, requests in re.findall(
        r"^\| (.*?) \| (shared|own) \| (.*) \|$", _DOCUMENT, re.MULTILINE
    )
    for request in re.findall(r"`([A-Z]+ /\S*)`", requests)
]

NEEDED: dict[tuple[str, str], frozenset[Scope] | None] = {
    **{(method, path): _SCOPES[scope] for method, path, scope, _ in _ROWS},
    ("HEAD", "/health/live"): OPEN,  # from here on: in the text below the table
    ("HEAD", "/health/ready"): OPEN,
    **{(method, path): OPEN for method in ("GET", "HEAD") for path in STATIC},
}
SHARED = {
    f"{method} {path}" for method, path, _, threads in _ROWS if threads == "shared"
}


def template_of(route_path: str) -> str:
    """The path of a route as the documentation writes it."""
    return route_path.replace(":path}", "}")


def expected(
    method: str, path: str, scopes: frozenset[Scope] | None, root: str = ""
) -> int | str:
    """The template of the route that a caller with `scopes` (None: no key) is to reach, or the status of the refusal.

    `path` is decoded, and below `root` if it begins with it.
    """
    if not all(character.isprintable() for character in path):
        return 400 if path.removeprefix(root).startswith("/v2/") else 422
    if root and path.startswith(root + "/"):
        path = path.removeprefix(root)
    templates = {template for _, template in NEEDED if _fits(template, path)}
    found = next(
        (template for template in sorted(templates) if (method, template) in NEEDED),
        None,
    )
    needed = ADMIN if found is None else NEEDED[method, found]
    if needed is not OPEN:
        if scopes is None:
            return 401
        if needed and not scopes & (needed | ADMIN):
            return 403
    return found or (405 if templates else 404)


def _fits(template: str, path: str) -> bool:
    if template in STATIC:
        return (
            path.startswith(template + "/") or path == template == "/console"
        )  # which leads to the page
    if template in REST:
        return path.startswith(template.rpartition("/")[0] + "/")
    wanted, sent = template.split("/"), path.split("/")
    return len(wanted) == len(sent) and all(
        one != "" if part.startswith("{") else part == one
        for part, one in zip(wanted, sent, strict=True)
    )


def filled(template: str) -> str:
    """A path of the template, percent-encoded or not as one likes."""
    return (
        f"{template}/{STATIC[template]}"
        if template in STATIC
        else template.replace("{", "a").replace("}", "")
    )
