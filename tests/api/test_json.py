"""JSON in requests: text that is refused, where it stands, and what is wrong with bodies that are no JSON."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.codecs.json import check_document, document_of
from app.errors import Invalid
from app.text import refused_character

DOCUMENTS = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def strings_of(document):
    if isinstance(document, str):
        yield document
    elif isinstance(document, list):
        for item in document:
            yield from strings_of(item)
    elif isinstance(document, dict):
        for name, item in document.items():
            yield name
            yield from strings_of(item)


@given(DOCUMENTS, st.sampled_from(["orjson", "escaped", "plain"]))
def test_documents(document, writer):
    """However a document is written, it is refused exactly where one of its strings is, with pointers that resolve."""
    written = orjson.dumps(document) if writer == "orjson" else b""
    written = written or json.dumps(document, ensure_ascii=writer == "escaped").encode()
    refused = any(map(refused_character, strings_of(document)))
    try:
        check_document(orjson.loads(written), written)
    except Invalid as error:
        assert refused
        for flaw in error.flaws:
            found = document
            for part in flaw.loc.split("/")[1:]:
                name = part.replace("~1", "/").replace("~0", "~")
                found = found[int(name)] if isinstance(found, list) else found[name]
    else:
        assert not refused


# Errors in JSON

LONG = b"1.25," * 50_000


def message(body: bytes) -> str:
    with pytest.raises(Invalid) as raised:
        document_of(body)
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
