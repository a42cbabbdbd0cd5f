"""JSON in requests: text that is refused, where it stands, and what is wrong with bodies that are no JSON."""

import json

import orjson
from hypothesis import given
from hypothesis import strategies as st

from app.api.codecs.json import check_document
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
