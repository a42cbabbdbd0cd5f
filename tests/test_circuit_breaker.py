"""The circuit breaker that stores and the database share."""

from __future__ import annotations

import pytest

from app.circuit_breaker import CircuitBreaker
from app.errors import Unavailable


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    clock = [0.0]
    monkeypatch.setattr("app.circuit_breaker.monotonic", lambda: clock[0])
    return clock


def test_after_a_failure_one_caller_passes_each_second_until_one_is_answered(clock):
    breaker = CircuitBreaker()
    breaker.admit(Unavailable)
    breaker.trip("the disk is full")
    for _ in range(3):
        with pytest.raises(Unavailable, match="the disk is full"):
            breaker.admit(Unavailable)
        clock[0] += 1
        breaker.admit(Unavailable)
    breaker.reset()
    breaker.admit(Unavailable)
    breaker.admit(Unavailable)
