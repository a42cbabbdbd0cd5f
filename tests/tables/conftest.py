"""What the tests of data sets share."""

from __future__ import annotations

import pytest

from app.tables.dataset import DataLimits
from app.tables.store import DatasetStore


@pytest.fixture
def limits():
    return DataLimits(
        max_rows=100_000,
        max_columns=400,
        max_categories=50,
        max_upload_bytes=32_000_000,
    )


@pytest.fixture
def store(tmp_path, limits):
    return DatasetStore(str(tmp_path / "datasets"), limits)
