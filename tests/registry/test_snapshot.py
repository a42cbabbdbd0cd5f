"""Model references: their grammar and what they mean."""

import pytest

from app.errors import Invalid, NotFound
from app.registry.snapshot import Snapshot

LONG = f"0{'_-' * 31}z"
SNAPSHOT = Snapshot.of(
    7,
    {("triage", 1): "x", ("triage", 2): "y", ("triage", 10): "z", ("heart", 3): "h", (LONG, 999_999_999): "l"},
    {},
    [("triage", "champion", 2), ("triage", "gone", 5)],
)


@pytest.mark.parametrize(
    "text",
    [
        *["", " a", "a ", "a\n", "A", "a:", "a:0", "a:01", "a:-1", "a:x", "a@", "a@B", "a:1@b", "a@b:1", "../a", "é"],
        *["a:1234567890", "a" * 65, "a@" + "b" * 65, "a:\u0663"],
    ],
)
def test_what_is_no_reference_is_refused_with_the_grammar(text):
    with pytest.raises(Invalid, match="write name, name:3") as refused:
        SNAPSHOT.resolve(text)
    assert [flaw.loc for flaw in refused.value.flaws] == ["/model"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("triage", ("triage", 10)),
        ("triage:1", ("triage", 1)),
        ("triage@champion", ("triage", 2)),
        ("heart", ("heart", 3)),
        (f"{LONG}:999999999", (LONG, 999_999_999)),
    ],
)
def test_references_mean_versions(text, key):
    """A bare name is the highest version, by number and not by spelling."""
    assert SNAPSHOT.resolve(text) == key


@pytest.mark.parametrize("text", ["stroke", "triage:3", "triage@best", "heart@best", "triage@gone"])
def test_what_is_unknown_is_not_found(text):
    with pytest.raises(NotFound, match=f"no model '{text}'"):
        SNAPSHOT.resolve(text)
