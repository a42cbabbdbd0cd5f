"""The same patterns mean the same in memory and in SQL."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, String, Table, create_engine, insert, select

from app.patterns import compiled, is_pattern, matches

NAMES = Table("names", MetaData(), Column("name", String(64)))


@pytest.fixture(scope="module")
def engine():
    engine = create_engine("sqlite://")
    NAMES.metadata.create_all(engine)
    yield engine
    engine.dispose()


@settings(deadline=None)
@given(
    patterns=st.lists(st.text("ab_-*?", min_size=1, max_size=6), max_size=3),
    names=st.lists(st.text("ab_-", min_size=1, max_size=6), min_size=1, max_size=8, unique=True),
)
def test_memory_and_sql_agree(engine, patterns, names):
    assert all(map(is_pattern, patterns))
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(insert(NAMES), [{"name": name} for name in names])
        found = set(connection.execute(select(NAMES.c.name).where(matches(NAMES.c.name, patterns))).scalars())
        transaction.rollback()

    assert found == ({name for name in names if compiled(patterns).fullmatch(name)} if patterns else set())
