"""What sends spans to a collector; the only module that needs the extra `telemetry`."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def provider(url: str, seconds: float, resource: Mapping[str, str]) -> TracerProvider:
    """Sends in a thread; one attempt to reach the collector may take so many seconds."""
    made = TracerProvider(resource=Resource.create(dict(resource)))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=seconds)))
    return made
