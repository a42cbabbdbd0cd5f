"""Traces of OpenTelemetry: where the time of a request went, and of the job that it ordered. Off unless asked for.

Without `start` every span here is OpenTelemetry's own empty one. Attributes say which model, job or route; never what
was sent or answered, and never a key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog
from opentelemetry import context, trace
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app import __version__
from app.errors import PayoffError

_PATH = "/v1/traces"
_SECONDS = 3  # that one attempt to reach the collector may take; nobody waits longer for it at the end
_MAX_STAGES = 200  # spans of one job
_TRACER = trace.get_tracer("payoff", __version__)
_CONTEXT = TraceContextTextMapPropagator()


def start(endpoint: str) -> bool:
    """Send this process's spans to the OTLP/HTTP collector at `endpoint`; False, and nothing else, where that is empty.

    The standard OTEL_… variables do the rest (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS).
    """
    if not endpoint:
        return False
    try:
        from app import telemetry  # noqa: PLC0415 - an extra
    except ImportError as absent:
        raise PayoffError("PAYOFF_TELEMETRY needs the extra telemetry: pip install 'payoff[telemetry]'") from absent
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "payoff"}
    url = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
    trace.set_tracer_provider(telemetry.provider(url, _SECONDS, {**named, "service.version": __version__}))
    return True


def stop() -> None:
    """Send what has not been sent yet, if that does not take long."""
    provider: Any = trace.get_tracer_provider()
    if hasattr(provider, "force_flush"):
        provider.force_flush(_SECONDS * 1000)


def origin() -> dict[str, str]:
    """What a job remembers of the request that ordered it: its id, and its place in a trace if there is one."""
    remembered: dict[str, str] = {}
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    if request_id is not None:
        remembered["request_id"] = request_id
    _CONTEXT.inject(remembered)
    return remembered


@contextmanager
def span(name: str, **attributes: str | float) -> Iterator[None]:
    """A part of the present trace; an error that ends it is told by its class alone."""
    with _TRACER.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as current:
        for key, value in attributes.items():
            current.set_attribute(f"payoff.{key}", value)
        try:
            yield
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            current.set_status(Status(StatusCode.ERROR))
            raise


@contextmanager
def continued(remembered: Mapping[str, str], name: str, **attributes: str | float) -> Iterator[None]:
    """`span`, below the request that `origin` remembered."""
    token = context.attach(_CONTEXT.extract(dict(remembered)))
    try:
        with span(name, **attributes):
            yield
    finally:
        context.detach(token)


@contextmanager
def staged(report: Callable[[float, str], None]) -> Iterator[Callable[[float, str], None]]:
    """A listener that passes reports on to `report`, and makes each stage that they name a span."""
    stage, left = "", _MAX_STAGES
    current: Span = trace.INVALID_SPAN

    def hear(fraction: float, named: str) -> None:
        nonlocal stage, current, left
        if named != stage and left:
            current.end()
            stage, current, left = named, _TRACER.start_span(named or "work"), left - 1
        report(fraction, named)

    try:
        yield hear
    finally:
        current.end()


def describe(method: str, route: str, path: str, has_query: bool, request_id: str) -> None:
    """Name the present request's span after its route; what its query says stays out, for it may be data."""
    current = trace.get_current_span()
    current.update_name(f"{method} {route}")
    current.set_attribute("http.route", route)
    current.set_attribute("url.path", path)
    current.set_attribute("payoff.request_id", request_id)
    if has_query:
        current.set_attribute("url.query", "REDACTED")


def trace_id() -> str | None:
    """The present trace's id as collectors show it, None without a trace."""
    place = trace.get_current_span().get_span_context()
    return trace.format_trace_id(place.trace_id) if place.is_valid else None
