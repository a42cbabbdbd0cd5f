"""The circuit breaker that stores and the database share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import pytest

from app.circuit_breaker import CircuitBreaker
from app.errors import Unavailable


def tried(breaker):
    with breaker.passing(Unavailable):
        return True


def test_all_callers_pass_while_all_is_well():
    breaker, inside = CircuitBreaker(), Barrier(4, timeout=60)

    def call(_):
        with breaker.passing(Unavailable):
            return inside.wait() >= 0

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(4)))


def test_during_the_rest_no_caller_passes():
    breaker = CircuitBreaker()
    breaker.trip("the disk is full", 60)

    with pytest.raises(Unavailable, match="the disk is full"):
        tried(breaker)
    breaker.reset()
    assert tried(breaker)


def test_after_the_rest_one_caller_passes_at_a_time():
    """Also after a caller that failed; all pass as soon as one has been answered."""
    breaker, entered, leave = CircuitBreaker(), Event(), Event()
    breaker.trip("away", 0)

    def probe():
        with breaker.passing(Unavailable):
            entered.set()
            assert leave.wait(10)
            raise OSError

    with ThreadPoolExecutor(1) as pool:
        probing = pool.submit(probe)
        assert entered.wait(10)
        with pytest.raises(Unavailable, match="away"):
            tried(breaker)
        breaker.reset()
        assert tried(breaker)
        breaker.trip("away", 0)
        leave.set()
        assert isinstance(probing.exception(10), OSError)

    assert tried(breaker)


def test_a_caller_that_was_answered_keeps_nobody_out():
    """Also after a later failure: a transaction may stay open for minutes."""
    breaker = CircuitBreaker()
    breaker.trip("away", 0)

    with breaker.passing(Unavailable):
        breaker.reset()
        breaker.trip("away", 0)
        assert tried(breaker)
        with breaker.passing(Unavailable), pytest.raises(Unavailable):
            tried(breaker)


def test_the_end_of_an_answered_caller_lets_no_second_one_in():
    breaker = CircuitBreaker()
    breaker.trip("away", 0)
    answered = breaker.passing(Unavailable)
    answered.__enter__()
    breaker.reset()
    breaker.trip("away", 0)

    with breaker.passing(Unavailable):
        answered.__exit__(None, None, None)
        with pytest.raises(Unavailable):
            tried(breaker)


def test_a_refusal_has_its_reason_also_when_an_answer_comes_meanwhile(monkeypatch):
    breaker = CircuitBreaker()
    breaker.trip("the disk is full", 60)
    answer = Thread(target=breaker.reset)

    def meanwhile():
        answer.start()
        answer.join(0.1)
        return 0.0

    monkeypatch.setattr("app.circuit_breaker.monotonic", meanwhile)
    with pytest.raises(Unavailable, match="the disk is full"):
        tried(breaker)
    answer.join()
