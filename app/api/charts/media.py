"""When an answer is sent as a chart, and how."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from app.api.bodies.documents import media_type_of_answer
from app.api.bodies.media_types import JSON

SVG = "image/svg+xml"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"  # it is drawn with styles of its own
SVG_CONTENT: dict[str, Any] = {SVG: {"schema": {"type": "string"}}}


def wants_svg(request: Request) -> bool:
    """Whether `Accept` wants the chart more than JSON, which any wildcard stands for; of equals the first counts."""
    return media_type_of_answer(request, (SVG, JSON, "application/*", "*/*")) == SVG


def svg(content: str) -> Response:
    return Response(content, media_type=SVG, headers={"Vary": "Accept", "Content-Security-Policy": _POLICY})
