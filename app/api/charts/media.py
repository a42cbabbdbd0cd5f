"""When an answer is sent as a chart, and how."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

SVG = "image/svg+xml"
SVG_CONTENT: dict[str, Any] = {SVG: {"schema": {"type": "string"}}}


def wants_svg(request: Request) -> bool:
    """Whether the first form in `Accept` that we know is the chart; without one it is JSON."""
    for wanted in request.headers.get("accept", "").split(","):
        kind = wanted.partition(";")[0].strip().lower()
        if kind == SVG:
            return True
        if kind in ("application/json", "application/*", "*/*"):
            return False
    return False


def svg(content: str) -> Response:
    return Response(content, media_type=SVG, headers={"Vary": "Accept"})
