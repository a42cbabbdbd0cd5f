"""Which type each column of a source has, and how its text is read: by order, or as all of its words allow.

A column of text holds numbers where every word is one, or where all are written in one form (`app.forms`). Where forms
fit that give other numbers, nobody knows which are meant: the column is of no use until an order decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.data.dataset import ColumnReport
from app.data.source import Held, Kind, Location, Source
from app.data.upload_request import UploadRequest
from app.data.values import as_numbers, as_words, by_form, is_number
from app.errors import Flaw, below, pointer, reject, unknown
from app.forms import ISO, candidates, reader, shown, without_unit
from app.text import MAX_SHOWN

_MOST_CLASSES = 10_000
_LOOKED_AT = 1000  # words that are no numbers, for one that has a form


@dataclass
class _Text:
    """A column while it is looked at: the forms that read all its words, and a word that they read otherwise.

    Of a column that is `ordered` to be numbers the words that neither a form nor the `decimal` sign reads are missing.
    """

    ordered: str | None
    decimal: str
    is_plain: bool = True  # every word is a number
    forms: list[str] = field(default_factory=list)
    in_doubt: str | None = None

    def begin(self, strange: Iterable[str]) -> None:
        """Take the forms of the first of these words, none of which is a number; if ordered, of the first with any."""
        self.is_plain = False
        for word in strange:
            forms = candidates(word, self.decimal if self.ordered in (None, "number") else ".")
            self.forms = [form for form in forms if self.ordered in (None, "number", without_unit(form))]
            if self.forms or not self.ordered:
                return

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
        order = self.ordered if self.ordered not in (None, "number") else ISO if held == "moment" else ""
        form = "|".join(self.forms) or order or ""
        is_number = form or self.ordered or held not in ("text", "words") or (held == "text" and self.is_plain)
        return ("numeric", form) if is_number else ("categorical", "")


def typed(source: Source, request: UploadRequest, *, strict: bool = False) -> Source:
    """The source with each column as numbers or words, by order or by what it holds, without those of no use.

    These are `ignored` with the reason, but for labels and for what was ordered: they are `refused`. Where all columns
    are wanted (`strict`) words that may be meant in two ways stay words. In a column of numbers other words are
    missing, though one that is a number in another way of writing is refused, not lost. Reads the source to the end,
    and again where a column may have a form.
    """
    names = [place.name for place in source.places]
    reject(Flaw(pointer("types", n), unknown("column", n, names)) for n in request.types if n not in names)
    ignored = {name: why for name, why in source.ignored.items() if name not in {*request.label, *request.types}}
    ignored |= {name: ColumnReport(name) for name in request.named("ignore")}
    found = replace(source, ignored=ignored, refused={}, left_out={}, notes={**source.notes}, forms={})
    kept = [j for j, name in enumerate(names) if name not in ignored]
    texts, spellings = _looked_at(source, kept, request)
    chosen: list[tuple[int, Kind, str]] = []
    for j in kept:
        name, held = names[j], source.kinds[j]
        text = texts.get(j) or _Text(request.types.get(name), request.decimal)
        reason = text.doubt(name) if held else f"the type of {name!r} is not supported; make it numbers or strings"
        if reason and held and strict and not text.ordered:  # nobody could order a type here
            found.notes[name], reason = reason, None
            text.forms.clear()
        if reason and not (strict or text.ordered or name in request.label):
            ignored[name] = ColumnReport(name, examples=tuple(filter(None, [text.in_doubt])), advice=reason)
            continue
        if reason:
            found.refused[name] = Flaw(source.places[j].loc, reason)
        if held:
            chosen.append((j, *text.type(held, is_class=request.is_class(name))))
    return _read_by(found, chosen, request, _respelt(spellings))


def _looked_at(source: Source, kept: Sequence[int], request: UploadRequest) -> tuple[dict[int, _Text], Counter[str]]:
    """What the columns of text hold, and how often each word of a label of classes occurs, up to some."""
    names = {j: source.places[j].name for j in kept if source.kinds[j] in ("text", "words")}
    texts = {
        j: _Text(request.types.get(name), request.decimal) for j, name in names.items() if request.may_have_form(name)
    }
    labels, spellings = [j for j, name in names.items() if request.is_class(name)], Counter[str]()
    for arrays in source.batches() if texts else ():
        for j, text in texts.items():
            if text.is_plain or (text.ordered and not text.forms):
                strange = as_numbers(arrays[j], request.decimal)[1]
                if strange is not None and j in labels:
                    text.is_plain = False
                elif strange is not None:
                    text.begin(_words(arrays[j].filter(strange))[:_LOOKED_AT])
        for j in labels:
            counts = pc.value_counts(as_words(arrays[j])) if len(spellings) <= _MOST_CLASSES else pa.array([])
            spellings.update({each["values"]: each["counts"] for each in counts.to_pylist() if each["values"]})
    doubtful = {j: text for j, text in texts.items() if text.forms}
    for arrays in source.batches() if doubtful else ():
        for j, text in doubtful.items():
            if text.forms:
                text.narrow(_words(arrays[j]))
    return texts, spellings if len(spellings) <= _MOST_CLASSES else Counter()


def _words(array: Any) -> list[str]:
    """The words that occur, each once."""
    found: list[str] = pc.unique(as_words(array)).drop_null().to_pylist()
    return found


def _respelt(spellings: Counter[str]) -> dict[str, str]:
    """The words of a label that differ from a more frequent one in case and spaces alone, and that one.

    Of truths it is the one that JSON has, so that `true` and `false` are the keys of a matrix.
    """
    same = {word: " ".join(word.casefold().split()) for word in spellings}
    usual: dict[str, str] = {}
    for word, _ in spellings.most_common():
        usual.setdefault(same[word], word)
    if usual.keys() <= {"true", "false"}:
        usual = {word: word for word in usual}
    return {word: usual[key] for word, key in same.items() if usual[key] != word}


def _read_by(
    source: Source, chosen: Sequence[tuple[int, Kind, str]], request: UploadRequest, respelt: dict[str, str]
) -> Source:
    """The chosen columns, each read by its kind and form, and the `respelt` words of the label as their usual spelling;
    without the rows that have no label, if that was ordered.
    """
    kept: list[np.ndarray] = []  # rows, batch by batch
    drops = request.drop_unlabelled
    places = [replace(source.places[j], kept=kept) if drops else source.places[j] for j, _, _ in chosen]
    labels = [k for k, place in enumerate(places) if place.name in request.label]
    old, usual = pa.array(respelt, pa.string()), pa.array(respelt.values(), pa.string())
    source.forms.update({place.name: form for place, (_, _, form) in zip(places, chosen, strict=True) if form})
    if respelt and not {*respelt.values()} <= {"true", "false"}:
        first, instead = next(iter(respelt.items()))
        order = f'send types={{"{request.label[0]}": "category"}} to keep such spellings apart'
        source.notes[request.label[0]] = f"{first!r} is read as {instead!r}; {order}"

    def batches() -> Iterator[list[Any]]:
        rows = 0
        kept.clear()
        source.left_out.clear()
        for arrays in source.batches():
            columns = [
                _read(arrays[j], source.places[j], kind, form, rows, request.decimal, source)
                for j, kind, form in chosen
            ]
            for k in labels if respelt else ():
                words = columns[k].cast(pa.string())
                columns[k] = pc.coalesce(usual.take(pc.index_in(words, value_set=old)), words)
            if drops:
                has_label = np.logical_and.reduce([columns[k].is_valid() for k in labels])
                kept.append(rows + np.flatnonzero(has_label))
                columns = [column.filter(pa.array(has_label)) for column in columns]
            rows += len(arrays[0])
            yield columns
        if dropped := rows - sum(map(len, kept)) if drops else 0:
            source.left_out[request.label[0]] = "rows without a label, which are left out", dropped

    return replace(source, places=places, kinds=[kind for _, kind, _ in chosen], batches=batches)


def _read(array: Any, place: Location, kind: Kind, form: str, rows: int, decimal: str, source: Source) -> Any:
    """An array by its kind; words that are no numbers are missing, which the source notes. `rows` came before it."""
    if kind == "categorical":
        with below(place.loc):
            return as_words(array)
    found, strange = by_form(array, form) if form else as_numbers(array, decimal)
    if strange is not None:
        bad = np.flatnonzero(strange.to_numpy(zero_copy_only=False))
        texts = array.take(pa.array(bad)).to_pylist()
        first_rows = {word: i for i, word in reversed([*enumerate(texts)])}
        written = (i for word, i in first_rows.items() if candidates(word, decimal))
        if (i := next(written, None)) is not None:
            msg = f"{texts[i][:MAX_SHOWN]!r} is in another way of writing than {form or 'the other numbers'}"
            source.refused.setdefault(place.name, place.flaw(rows + int(bad[i]), msg))
        msg = f"{texts[0][:MAX_SHOWN]!r} is not a number; such values count as missing"
        first, count = source.left_out.get(place.name, (place.flaw(rows + int(bad[0]), msg).msg, 0))
        source.left_out[place.name] = first, count + len(bad)
    return found
