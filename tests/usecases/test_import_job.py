"""Importing, as far as no process is needed."""

from __future__ import annotations

import pytest

from app.errors import Invalid
from app.usecases.import_job import check_memory
from tests.messages import says

MB = 2**20


def test_a_model_may_take_as_much_memory_as_an_upload_and_its_libraries():
    check_memory(300 * MB, 64 * MB)

    with pytest.raises(Invalid) as caught:
        check_memory(400 * MB, 64 * MB)
    assert says("/file", "400 MB", "320 MB") in caught.value.flaws
