"""Pages and their tokens, for every list of the service; patterns mean the same in memory and in SQL."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, String, Table, create_engine, insert, select

from app.errors import Invalid
from app.listing import SEQUENCE_NUMBER, compiled, is_pattern, matches, page_of, place_of


@given(names=st.lists(st.from_regex(r"[a-z][a-z0-9_|:-]{0,9}", fullmatch=True), unique=True), size=st.integers(1, 5))
def test_pages_join_to_the_whole_list_and_their_tokens_are_opaque(names, size):
    """A token is base64url, and does not show the place that it stands for."""
    names = sorted(names)
    found, token, count = [], None, 0
    while count == 0 or token is not None:
        after = place_of(token, r"[a-z][a-z0-9_|:-]*") or ""
        page, token = page_of([name for name in names if name > after][: size + 1], size, str)
        found += page
        count += 1
        assert token is None or (token not in names and set(token) <= ALPHABET)

    assert found == names
    assert count == max(-(-len(names) // size), 1)


ALPHABET = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "token",
    ["", "7", "x", "\u0663", "////", "Nw==", "Nx", "YQ", "LTE", "MTIzNDU2Nzg5MDEyMzQ1Njc4OQ", "\0", "_w", "A" * 99],
)
def test_a_token_that_no_page_gave_is_refused(token):
    """Not base64url, padded, of another list, or of more digits than a sequence number has."""
    with pytest.raises(Invalid) as caught:
        place_of(token, SEQUENCE_NUMBER)

    assert [flaw.loc for flaw in caught.value.flaws] == ["/page_token"]


def test_the_first_page_has_no_token():
    assert place_of(None, SEQUENCE_NUMBER) is None
    assert page_of([], 5, str) == ([], None)
    assert page_of([3, 2, 1], 2, str) == ([3, 2], "Mg")
    assert place_of("Mg", SEQUENCE_NUMBER) == "2"


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
