"""Which type each column of a source has, and how its text is read: by order, or as all of its
words allow.

A column of text holds numbers where every word is one, or where all are written in one form
(`app.tables.notations`). Where forms fit that give other numbers, nobody knows which are meant:
the column is of no use until an order decides.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.tables.dataset import ColumnReport
from app.tables.notations import BOOLEAN, COMMA, ISO, POINT, candidates, reader, shown, without_unit
from app.tables.source import Held, Kind, Location, Source
from app.tables.text import MAX_SHOWN, normal, spelling
from app.tables.upload_request import UploadRequest
from app.tables.values import as_numbers, as_words, by_form, holds_text, is_number, normal_words
from payoff.errors import Flaw, below, pointer, reject, unknown_at

_TEXT_DECIDES = {None, "number", POINT, COMMA}  # orders of columns whose words may be in a form
_FORMS = {"moment": ISO, "truth": BOOLEAN}
_LOOKED_AT = 1000  # words that are no numbers, for one that has a form
_REPEATS_HEADER = "rows that repeat the header, which are left out"
_UNLABELLED = "rows without a label, which are left out"
_THOUSANDS = (
    r"^(0|[1-9]\d{0,2}(\.\d{3})?)$"  # 1.899 or 899: if all words are, the point may part thousands
)


@dataclass
class _Text:
    """A column while it is looked at: the forms that read all its words, and a word that they read
    otherwise.

    Of a column that is `ordered` to be numbers the words that neither a form nor the `decimal` sign
    reads are missing.
    """

    ordered: str | None
    decimal: str
    is_plain: bool = True  # every word is a number
    are_thousands: bool = True  # or may be, and some of them have a point
    has_point: bool = False
    forms: list[str] = field(default_factory=list)
    in_doubt: str | None = None

    def begin(self, array: Any) -> None:
        """Take the forms of the first word that is no number; if ordered, of the first with any."""
        if not self.is_plain and (self.forms or not self.ordered):
            return
        strange = as_numbers(array, self.decimal)[1]
        if strange is not None:
            self.is_plain = False
            words = _words(array.filter(strange))[: _LOOKED_AT if self.ordered else 1]
            self.forms = next(filter(None, map(self.fitting, words)), [])
        elif self.are_thousands:
            words = as_words(array).cast(pa.string())  # of a Parquet file it may be a dictionary
            self.are_thousands = (
                pc.all(pc.match_substring_regex(words, _THOUSANDS)).as_py() is not False
            )
            self.has_point |= bool(pc.any(pc.match_substring(words, ".")).as_py())

    def fitting(self, word: str) -> list[str]:
        """The forms of the word that the order allows."""
        found = candidates(word, self.decimal if self.ordered in (None, "number") else ".")
        return [form for form in found if self.ordered in (None, "number", without_unit(form))]

    def narrow(self, words: Iterable[str]) -> None:
        """Keep the forms that read these words, too."""
        for word in words:
            read = {form: value for form in self.forms if (value := reader(form)(word)) is not None}
            if read or not self.ordered or is_number(word, self.decimal):
                self.forms = list(read)
            if not self.forms:
                return
            if len({*read.values()}) > 1:
                self.in_doubt = self.in_doubt or word

    def doubt(self, name: str) -> str | None:
        """What the column may mean, and the orders that decide; None where that is clear."""
        if len(self.forms) < 2 or (word := self.in_doubt) is None:
            return None
        ways = [
            f'{shown(reader(form)(word) or 0.0, form)} (types={{"{name}": "{without_unit(form)}"}})'
            for form in self.forms
        ]
        return f"{word[:MAX_SHOWN]!r} of {name!r} may be {' or '.join(ways)}; one of these orders decides"

    def type(self, held: Held, *, is_class: bool) -> tuple[Kind, str]:
        """Numeric or categorical, and the form of what is numbers."""
        if self.ordered == "category" or (held == "truth" and is_class):
            return "categorical", ""
        order = "" if self.ordered in (None, "number") else self.ordered
        form = "|".join(self.forms) or order or _FORMS.get(held, "")
        is_number = (
            form
            or self.ordered
            or held not in ("text", "words")
            or (held == "text" and self.is_plain)
        )
        return ("numeric", form) if is_number else ("categorical", "")


def typed(source: Source, request: UploadRequest, *, strict: bool = False) -> Source:
    """The source with each column as numbers or words, by order or by what it holds, without those
    of no use.

    These are `ignored` with the reason, but for labels and for what was ordered: they are
    `refused`. Where all columns are wanted (`strict`) words that may be meant in two ways stay
    words. In a column that is ordered to be numbers other words are missing. Reads the source to
    the end, and again where a column may have a form.
    """
    names = [place.name for place in source.places]
    reject(
        unknown_at(pointer("types", n), "column", n, names) for n in request.types if n not in names
    )
    source = _normal(source) if strict else _rows_to_learn_from(_normal(source), request)
    ignored = {
        name: why
        for name, why in source.ignored.items()
        if name not in {*request.label, *request.types}
    }
    ignored |= {name: ColumnReport(name) for name in request.named("ignore")}
    found = replace(source, ignored=ignored, refused={}, notes={**source.notes}, forms={})
    kept = [j for j, name in enumerate(names) if name not in ignored]
    texts = _looked_at(source, kept, request)
    chosen: list[tuple[int, Kind, str]] = []
    for j in kept:
        name, held = names[j], source.kinds[j]
        text = texts.get(j) or _Text(request.reads(name), request.decimal)
        reason = (
            text.doubt(name)
            if held
            else f"the type of {name!r} is not supported; make it numbers or strings"
        )
        if reason and held and strict and not text.ordered:  # nobody could order a type here
            found.notes[name], reason = reason, None
            text.forms.clear()
        if reason and not (strict or text.ordered or name in request.label):
            ignored[name] = ColumnReport(
                name, examples=tuple(filter(None, [text.in_doubt])), advice=reason
            )
            continue
        if reason:
            found.refused[name] = Flaw(source.places[j].loc, reason)
        chosen.append((j, *text.type(held, is_class=request.is_class(name))))
    reject(flaw for name, flaw in found.refused.items() if not source.kinds[names.index(name)])
    return _read_by(found, chosen, request)


def _normal(source: Source) -> Source:
    """The source with all text as `app.tables.text.normal` has it; text of CSV is without outer
    blanks already.
    """

    def batches() -> Iterator[list[Any]]:
        for arrays in source.batches():
            for j, held in enumerate(source.kinds):
                with below(source.places[j].loc):
                    if held == "words":
                        arrays[j] = normal_words(as_words(arrays[j]))
                    elif held == "text" and not pc.all(pc.string_is_ascii(arrays[j])).as_py():
                        arrays[j] = normal_words(arrays[j])
            yield arrays

    return replace(source, batches=batches)


def _rows_to_learn_from(source: Source, request: UploadRequest) -> Source:
    """The source without the rows that repeat its header and, by order, those without a label or of
    some classes.

    They are counted, and the types of columns do not depend on them.
    """
    gaps: list[np.ndarray] = []  # positions of the rows that are left out, batch by batch
    counts: dict[str, dict[str, int]] = {}
    reasons_of = _reasons_by_batch(source, request)

    def batches() -> Iterator[list[Any]]:
        rows, total = 0, Counter[str]()
        gaps.clear()
        for arrays in source.batches():
            stays = np.ones(len(arrays[0]), dtype=bool)
            for reason, leaves in reasons_of(arrays):
                total[reason] += int(np.count_nonzero(stays & leaves))
                stays &= ~leaves
            if not stays.all():
                gaps.append(rows + np.flatnonzero(~stays))
            rows += len(stays)
            yield arrays if stays.all() else [each.filter(pa.array(stays)) for each in arrays]
        usual = {reason for reason in (_REPEATS_HEADER, _UNLABELLED) if not total[reason]}
        if request.label and total.keys() - usual:
            counts[request.label[0]] = {name: total[name] for name in total if name not in usual}

    places = [replace(place, left_out=gaps) for place in source.places]
    return replace(source, places=places, batches=batches, left_out=counts)


def _reasons_by_batch(
    source: Source, request: UploadRequest
) -> Callable[[list[Any]], Iterator[tuple[str, np.ndarray]]]:
    """What finds the rows (n,) of a batch that are left out, reason by reason."""
    names = [place.name for place in source.places]
    labels = [j for j, name in enumerate(names) if name in request.label and source.kinds[j]]
    ordered = [j for j in labels if request.reads(names[j]) not in (None, "category")]
    texts = _looked_at(source, ordered, request) if request.drop_unlabelled else {}
    types = {
        j: texts.get(j, _Text(request.reads(names[j]), request.decimal, is_plain=False)).type(
            source.kinds[j], is_class=request.is_class(names[j])
        )
        for j in labels
    }
    uncounted = replace(source, left_out={})

    def reasons(arrays: list[Any]) -> Iterator[tuple[str, np.ndarray]]:
        yield _REPEATS_HEADER, _repeats(arrays, names)
        if request.drop_unlabelled:
            columns = [
                _read(arrays[j], source.places[j], *types[j], 0, request.decimal, uncounted)
                for j in labels
            ]
            missing = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
            yield _UNLABELLED, np.logical_or.reduce(missing)
        for name in request.drop_classes if labels else ():
            reason = f"rows with {name!r}, which are left out"
            yield (
                reason,
                _has_class(arrays[labels[0]], name, exact=names[labels[0]] in request.types),
            )

    return reasons


def _repeats(arrays: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """Where a row (n,) of text has the name of its column in each cell, as where files were joined."""
    rows = np.arange(len(arrays[0]))
    for array, name in zip(arrays, names, strict=True):
        if not rows.size or not holds_text(array.type):
            return np.zeros(len(array), dtype=bool)
        cells = (
            array.cast(pa.string())
            if len(rows) == len(array)
            else array.take(pa.array(rows)).cast(pa.string())
        )
        rows = rows[pc.equal(cells, name).fill_null(False).to_numpy(zero_copy_only=False)]
    return np.isin(np.arange(len(arrays[0])), rows)


def _has_class(array: Any, name: str, *, exact: bool) -> np.ndarray:
    """Where the label (n,) is the class, in any spelling unless it has to be `exact`."""
    words = as_words(array).cast(pa.string())
    same = normal if exact else _as_class
    spellings = [word for word in _words(words) if same(word) == same(name)]
    return pc.is_in(words, pa.array(spellings, pa.string())).to_numpy(zero_copy_only=False)


def _as_class(word: str) -> float | str:
    """Equal for the spellings of one class, and of one number."""
    return float(word) if is_number(word, ".") else spelling(word)


def _looked_at(source: Source, kept: Sequence[int], request: UploadRequest) -> dict[int, _Text]:
    """What the columns of text hold."""
    names = {j: source.places[j].name for j in kept if source.kinds[j] in ("text", "words")}
    texts = {
        j: _Text(ordered, request.decimal, are_thousands=source.kinds[j] == "text")
        for j, name in names.items()
        if (ordered := request.reads(name)) in _TEXT_DECIDES
    }
    for arrays in source.batches() if texts else ():
        for j, text in texts.items():
            text.begin(arrays[j])
    for j, text in texts.items():
        if not text.is_plain and request.is_class(names[j]):
            text.forms.clear()
        elif text.is_plain and text.are_thousands and text.has_point:
            text.forms = text.fitting("1.000")
    doubtful = {j: text for j, text in texts.items() if text.forms}
    for arrays in source.batches() if doubtful else ():
        for j, text in doubtful.items():
            if text.forms:
                text.narrow(_words(arrays[j]))
    return texts


def _words(array: Any) -> list[str]:
    """The words that occur, each once."""
    return pc.unique(as_words(array)).drop_null().to_pylist()


def _read_by(
    source: Source, chosen: Sequence[tuple[int, Kind, str]], request: UploadRequest
) -> Source:
    """The chosen columns, each read by its kind and form; without the rows that have no label, if
    that was ordered.
    """
    places = [source.places[j] for j, _, _ in chosen]
    source.forms.update(
        {place.name: form for place, (_, _, form) in zip(places, chosen, strict=True) if form}
    )

    def batches() -> Iterator[list[Any]]:
        rows = 0
        source.left_out.clear()
        for arrays in source.batches():
            yield [
                _read(arrays[j], source.places[j], kind, form, rows, request.decimal, source)
                for j, kind, form in chosen
            ]
            rows += len(arrays[0])

    return replace(source, places=places, kinds=[kind for _, kind, _ in chosen], batches=batches)


def _read(
    array: Any, place: Location, kind: Kind, form: str, rows: int, decimal: str, source: Source
) -> Any:
    """An array by its kind; words that are no numbers are missing, which the source notes. `rows`
    came before it.
    """
    if kind == "categorical":
        with below(place.loc):
            return as_words(array)
    found, strange = by_form(array, form) if form else as_numbers(array, decimal)
    if strange is not None:
        bad = np.flatnonzero(strange.to_numpy(zero_copy_only=False)).tolist()
        msg = f"{array[bad[0]].as_py()[:MAX_SHOWN]!r} is not a number; such values count as missing"
        counts = source.left_out.setdefault(place.name, {})
        reason = next(iter(counts), place.flaw(rows + bad[0], msg).msg)
        counts[reason] = counts.get(reason, 0) + len(bad)
    return found
