"""Errors as values: pointers, flaws, messages about names, and the rule for text."""

import json
import unicodedata
from itertools import count

import pytest

from app.errors import Conflict
from app.tables.text import check_query, check_text, refused_character
from payoff.errors import (
    MAX_ERRORS,
    Flaw,
    Invalid,
    described,
    flaws_of,
    pointer,
    positions,
    reject,
    unknown,
    unknown_at,
)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), ""),
        (("",), "/"),
        (("a/b", 0), "/a~1b/0"),
        (("~1",), "/~01"),
        (("~", "/"), "/~0/~1"),
    ],
)
def test_steps_of_a_pointer_are_escaped(steps, expected):
    assert pointer(*steps) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "null"), (True, "true"), (False, "false"), ("None", "'None'"), ("a\x1b", r"'a\x1b'"),
     ("x" * 200, repr("x" * 64)), ([1], "a list"), ({}, "an object"), (1.5, "1.5"),
     (json.loads("[" * 900 + "]" * 900), "a list")],
)  # fmt: skip
def test_a_value_is_described_as_json_has_it(value, words):
    """In the words of JSON, not of Python."""
    assert described(value) == words


def endless():
    return (Flaw(pointer(i), "wrong") for i in count())


def rejected():
    reject(())
    with pytest.raises(Invalid) as raised:
        reject(endless())
    return raised.value


@pytest.mark.parametrize(
    "build",
    [
        lambda: Invalid("all", endless()),
        lambda: Invalid.of(endless()),
        lambda: Invalid.of(endless()).under("/data"),
        lambda: Conflict("all", endless()),
        rejected,
    ],
)
def test_an_error_takes_the_first_flaws_and_does_not_look_at_the_rest(build):
    flaws = build().flaws

    assert len(flaws) == MAX_ERRORS
    assert [flaw.loc.removeprefix("/data") for flaw in flaws] == [
        pointer(i) for i in range(MAX_ERRORS)
    ]


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        (
            "benefit",
            ["priors", "benefits"],
            "unknown field 'benefit'; did you mean 'benefits'?",
        ),
        (
            "x",
            ["priors", "benefits"],
            "unknown field 'x'; allowed: 'priors', 'benefits'",
        ),
        ("x", [], "unknown field 'x'; none is allowed here"),
        ("x", ["a" * 100], f"unknown field 'x'; allowed: '{'a' * 64}'"),
        (
            "x" * 100,
            ["x" * 99],
            f"unknown field '{'x' * 64}'; did you mean '{'x' * 64}'?",
        ),
        ("z", [f"n{i}" for i in range(400)], None),
    ],
)
def test_an_unknown_name_suggests_a_known_one_or_lists_them(name, known, message):
    found = unknown("field", name, known)

    assert found == message or (
        message is None and found.endswith("'n19' and 380 more")
    )


def test_the_first_unknown_name_of_several_alone_has_a_suggestion():
    """Twenty anagrams of fifty names held the event loop for 150 ms and more."""
    letters = "abcdefghijklmnopqrstuvwxyzabcdef"
    names = [letters[i:] + letters[:i] for i in range(32)]
    near = [name[:-1] + "-" for name in names]
    error = Invalid.of(
        unknown_at(pointer(name), "action", name, names) for name in near
    )
    first, *others = error.under("/benefits").flaws

    assert first == Flaw(
        f"/benefits/{near[0]}",
        f"unknown action {near[0]!r}; did you mean {names[0]!r}?",
    )
    assert error.detail == first.msg
    assert len(others) == MAX_ERRORS - 1
    assert all("allowed: " in flaw.msg for flaw in others)


ALLOWED = "\t\n\r"


def test_every_character():
    """Control characters but tabs and line ends, and surrogates, are refused; every other character is accepted."""
    for code in range(0x110000):
        refused = (
            unicodedata.category(chr(code)) in ("Cc", "Cs") and chr(code) not in ALLOWED
        )

        assert (refused_character(f"a{chr(code)}") is not None) == refused, hex(code)


@pytest.mark.parametrize(
    "query", [b"name=%00", b"name=a%0Bb", b"name=%7f", b"name=%C2%85", b"x=1&name=%1F"]
)
def test_queries(query):
    with pytest.raises(Invalid) as caught:
        check_query(query)

    assert caught.value.flaws[0].loc == "/name"


@pytest.mark.parametrize(
    "query",
    [b"", b"name=a%20b", b"name=%C3%A4&x=%C2%B0", b"name=%0A%09", b"name=100%25"],
)
def test_plain_queries(query):
    check_query(query)


def test_what_is_refused_is_said_with_its_place():
    with pytest.raises(
        Invalid,
        match=r"the control character U\+0000 at position 1 is not allowed in text",
    ):
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


def test_what_arrived_is_said_beside_what_should_have():
    details = [
        {
            "loc": ("delimiter",),
            "type": "literal_error",
            "msg": "Input should be ',' or ';'",
        }
    ]

    assert (
        flaws_of(details, {"delimiter": ""})[0].msg
        == "Input should be ',' or ';', not ''"
    )
