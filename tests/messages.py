"""Errors in tests: a place, and the names and values that the message must contain, in whatever words."""

from dataclasses import dataclass

from payoff.errors import Flaw


@dataclass(frozen=True, eq=False)
class Says:
    """Equal to every flaw at `loc` whose message contains all `words`: they are values and terms, not its wording."""

    loc: str
    words: tuple[str, ...]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict):  # as it is in a problem document
            other = Flaw(other["loc"], other["msg"])
        return (
            isinstance(other, Flaw)
            and other.loc == self.loc
            and all(word in other.msg for word in self.words)
        )

    @property
    def completed(self) -> "Says":
        """As of a flaw, whose best message it is."""
        return self

    def __hash__(self) -> int:
        return hash(self.loc)


def says(loc: str, *words: str) -> Says:
    """What a test expects of a flaw; at least one word, so that another flaw at the same place is not taken for it."""
    assert words
    return Says(loc, words)


def without_words(answer):
    """The document of an answer but for the matrix in words, which the first of equal requests gets."""
    document = answer.json()
    document.get("parameters", document).pop("matrix_in_words", None)
    return document
