"""Compile before the first test, and let no clock decide about an example."""

import pytest
from hypothesis import settings

from app.retrieval.warming import warm

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def compiled():
    warm()
