"""Metrics of several processes as one."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from app import siblings
from app.siblings import Siblings


def process(folder, monkeypatch, pid, numbers):
    """A process with so many requests, models, and such an age."""
    monkeypatch.setattr(os, "getpid", lambda: pid)
    registry = CollectorRegistry()
    requests, cached, age = numbers
    Counter("payoff_requests", "Requests", ("route",), registry=registry).labels("/predict").inc(requests)
    Gauge("payoff_models_cached", "Models", registry=registry).set(cached)
    Gauge("payoff_registry_age_seconds", "Age", registry=registry).set(age)
    seconds = Histogram("payoff_request_seconds", "Time", buckets=(1, 2), registry=registry)
    for _ in range(requests):
        seconds.observe(1.5)
    found = Siblings(folder)
    found.start(registry)
    return found


def test_counts_are_added_and_gauges_follow_their_meaning(tmp_path, monkeypatch):
    one, other = process(tmp_path, monkeypatch, 1, (3, 2, 0.5)), process(tmp_path, monkeypatch, 2, (4, 5, 0.25))
    for asked in (one, other):
        lines = asked.report().decode().splitlines()
        assert 'payoff_requests_total{route="/predict"} 7.0' in lines
        assert 'payoff_request_seconds_bucket{le="2.0"} 7.0' in lines
        assert "payoff_request_seconds_sum 10.5" in lines
        assert "payoff_models_cached 7.0" in lines
        assert "payoff_registry_age_seconds 0.5" in lines


def test_the_counts_of_an_ended_process_stay_and_its_gauges_do_not(tmp_path, monkeypatch):
    """Otherwise a sum would fall, which Prometheus takes for a restart of the whole service."""
    one, other = process(tmp_path, monkeypatch, 1, (3, 2, 0.5)), process(tmp_path, monkeypatch, 2, (4, 5, 0.25))
    one.report()
    other.stop()
    lines = one.report().decode().splitlines()
    assert 'payoff_requests_total{route="/predict"} 7.0' in lines
    assert "payoff_models_cached 2.0" in lines


def test_a_process_that_was_killed_before_it_was_asked_is_left_out(tmp_path, monkeypatch):
    one = process(tmp_path, monkeypatch, 1, (3, 2, 0.5))
    (tmp_path / "9.socket").touch()  # nobody listens
    assert "payoff_models_cached 2.0" in one.report().decode()
    assert not (tmp_path / "9.socket").exists()


def test_it_is_stated_for_every_gauge_how_those_of_two_processes_become_one(service):
    families = text_string_to_metric_families(service.get("/metrics").text)
    gauges = {family.name for family in families if family.name.startswith("payoff_") and family.type == "gauge"}

    assert len(gauges) > 5
    assert gauges <= siblings._ADDED_GAUGES | siblings._LEAST_GAUGES | siblings._LARGEST_GAUGES
