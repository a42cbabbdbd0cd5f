"""While the storage is away, a name that has moved on is answered with what it meant before."""

import pytest

from app.errors import Unavailable
from tests.registry.making import publish


def unavailable(*_):
    raise Unavailable("the store does not answer")


@pytest.mark.parametrize("reference", ["triage", "triage@live"])
def test_the_version_before_answers_until_the_new_one_can_be_read(registry, another, monkeypatch, reference):
    publish(registry)
    other = another()
    other.set_alias("triage", "live", 1, "ann")
    registry.refresh()
    assert registry.load(reference).version == 1
    publish(other)
    other.set_alias("triage", "live", 2, "ann")
    registry.refresh()
    with monkeypatch.context() as outage:
        outage.setattr(registry._files, "fetch", unavailable)
        assert registry.load(reference).version == 1
        other.set_alias("triage", "other", 1, "ann")  # the index changes again meanwhile
        registry.refresh()
        assert registry.load(reference).version == 1
        with pytest.raises(Unavailable):
            registry.load("triage:2")  # who asks for a version wants that one

    assert registry.load(reference).version == 2


def test_what_was_deleted_does_not_come_back(registry, another, monkeypatch):
    publish(registry)
    publish(registry)
    registry.refresh()
    assert registry.load("triage:1").version == 1
    other = another()
    other.set_alias("triage", "live", 1, "ann")
    registry.refresh()
    assert registry.load("triage@live").version == 1
    other.set_alias("triage", "live", 2, "ann")
    registry.refresh()
    other.delete_version("triage", 1)
    registry.refresh()
    monkeypatch.setattr(registry._files, "fetch", unavailable)

    with pytest.raises(Unavailable):
        registry.load("triage@live")
