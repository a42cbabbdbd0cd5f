"""Errors in JSON from callers: each message quotes the place, and names the fix of values that JSON lacks."""

from __future__ import annotations

import pytest

from app.api.codecs.json import parsed
from app.errors import Invalid

LONG = b"1.25," * 50_000


def message(body: bytes) -> str:
    with pytest.raises(Invalid) as raised:
        parsed(body, lambda _: None)
    return raised.value.flaws[0].msg


@pytest.mark.parametrize(
    "before", [b"", b"1, ", b'"\xc3\xa9\xf0\x9f\x98\x80", ', LONG], ids=["first", "later", "UTF-8", "long"]
)
@pytest.mark.parametrize("word", ["NaN", "nan", "Infinity", "-Infinity", "-inf", "None"])
def test_a_value_that_json_lacks_is_named_with_its_fix(before, word):
    found = message(b'{"instances": [[' + before + word.encode() + b", 3]]}")

    assert found.startswith("the body is not JSON: ")
    assert found.endswith(f"; JSON has no {word}: send null")
    assert f"{word}," in found.rsplit("near", 1)[1]
    assert len(found) < 250


@pytest.mark.parametrize(
    ("body", "quoted"),
    [
        (b'{"a": "x\ny"}', r"""near '{"a": "x\ny"}'"""),
        (b'{"a": "x\x1b[31my"}', r"""near '{"a": "x\x1b[31my"}'"""),
        ('{"a": \u202e1}'.encode(), r"""near '{"a": \u202e1}'"""),
        (b"[" + LONG + b"no]" + b"x" * 100_000, "near '1.25,1.25,no]xxxxxxx'"),
        (b'{"a": Nothing}', """near '{"a": Nothing}'"""),
    ],
)
def test_the_text_around_an_error_is_quoted_in_part_and_escaped(body, quoted):
    found = message(body)

    assert found.endswith(quoted)
    assert found.isprintable()


@pytest.mark.parametrize("body", [b"", b"\xff", b"[1", b"[", b"-"])
def test_the_end_of_a_body_and_bytes_that_are_no_text_are_no_other_error(body):
    assert "send null" not in message(body)
