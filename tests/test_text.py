"""The rule for text: what is refused, and where it points."""

import unicodedata

import pytest

from app.errors import Invalid
from app.text import check_query, check_text, positions, refused_character

ALLOWED = "\t\n\r"


def test_every_character():
    """Control characters but tabs and line ends, and surrogates, are refused; every other character is accepted."""
    for code in range(0x110000):
        refused = unicodedata.category(chr(code)) in ("Cc", "Cs") and chr(code) not in ALLOWED

        assert (refused_character(f"a{chr(code)}") is not None) == refused, hex(code)


@pytest.mark.parametrize("query", [b"name=%00", b"name=a%0Bb", b"name=%7f", b"name=%C2%85", b"x=1&name=%1F"])
def test_queries(query):
    with pytest.raises(Invalid) as caught:
        check_query(query)

    assert caught.value.flaws[0].loc == "/name"


@pytest.mark.parametrize("query", [b"", b"name=a%20b", b"name=%C3%A4&x=%C2%B0", b"name=%0A%09", b"name=100%25"])
def test_plain_queries(query):
    check_query(query)


def test_what_is_refused_is_said_with_its_place():
    with pytest.raises(Invalid, match=r"the control character U\+0000 at position 1 is not allowed in text"):
        check_text("a\0", "/name")


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ([3], "(position 3)"),
        ([0, 2], "(positions 0, 2)"),
        (range(5), "(positions 0, 1, 2, 3, 4)"),
        (range(10, 40), "(positions 10, 11, 12, 13, 14, …)"),
    ],
)
def test_a_warning_names_the_first_positions(at, text):
    assert positions(iter(at), len(at)) == text
