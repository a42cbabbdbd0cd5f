"""Pages and their tokens, for every list of the service; patterns mean the same in memory and in SQL."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, String, Table, create_engine, insert, select

from app.errors import Invalid
from app.listing import SEQUENCE_NUMBER, compiled, is_pattern, matches, place_of


@pytest.mark.parametrize("token", ["", "x", "\u0663", "7\n", "1" * 19])
def test_a_token_that_no_page_gave_is_refused(token):
    """Of another list, or of more digits than a sequence number has."""
    with pytest.raises(Invalid) as caught:
        place_of(token, SEQUENCE_NUMBER)

    assert [flaw.loc for flaw in caught.value.flaws] == ["/page_token"]


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
