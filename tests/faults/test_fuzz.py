"""Odd requests: every one has an answer of its own, none of them tells of the machine."""

from __future__ import annotations

import random
import tempfile
from itertools import islice

import pytest

from tests.conftest import trained
from tests.servers import zoo
from tests.servers.fuzzing import Wire, leaks, on_the_wire
from tests.servers.mutations import mutations

pytestmark = pytest.mark.thorough

REQUESTS = 1500


def test_odd_requests_get_answers(service):
    """Nothing ends in a server error, a stack trace or the name of a folder; the service answers on."""
    animals = zoo.ANIMALS[:2]
    for animal in animals:
        trained(service, animal.order())
    document = service.get("/openapi.json").json()
    chance, wire, wrong = random.Random(20), Wire(service.base_url.port), []
    valid = [sent for sent in zoo.examples(document, animals) if sent.path not in ("/train", "/compare")]
    for mutated in islice(mutations(valid, seed=20), REQUESTS):
        sent = on_the_wire(mutated, chance)
        status, text = wire.send(sent)
        if status >= 500 or leaks(text, [tempfile.gettempdir() + "/"]):
            wrong.append((sent, status, text[-500:]))
    wire.close()
    assert wrong == []
    assert service.get("/health/ready").status_code == 200
