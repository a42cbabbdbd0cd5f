"""The type of each column of a source, and the notation of its text: by order, or as all of its
words allow.

A column of text holds numbers where every word is one, or where all are written in one notation
(`app.tables.notations`). Where several notations fit and give different numbers, the column is
ambiguous and not used until an order decides.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.tables.dataset import ColumnReport
from app.tables.source import Kind, Location, Source
from app.tables.text import MAX_SHOWN, normal, spelling
from app.tables.text_columns import TextColumn, decide_by_others, scanned, words_of
from app.tables.upload_request import UploadRequest
from app.tables.values import (
    as_numbers,
    as_words,
    by_notation,
    holds_text,
    is_number,
    normal_words,
)
from payoff.errors import Flaw, below, pointer, reject, unknown_at

_REPEATS_HEADER = "rows that repeat the header, which are left out"
_UNLABELLED = "rows without a label, which are left out"
_TOTALS = "rows of totals without a label, which are left out"
_TOTAL = r"(?i)^(grand |sub)?(totals?|sum|summe|gesamt|total general|somme)\s?:?$"


def typed(source: Source, request: UploadRequest, *, strict: bool = False) -> Source:
    """The source with each column as numbers or words, by order or by its content, without columns
    that cannot be read.

    These are `ignored` with the reason, as are those that were ordered to be, except labels and
    columns whose type was ordered, which are `refused`. Where all columns are wanted (`strict`)
    ambiguous words stay words. In a column that is ordered to be numbers other words are missing.
    Reads the source to the end, and again where a column may have a notation.
    """
    names = [place.name for place in source.places]
    reject(
        unknown_at(pointer("types", n), "column", n, names)
        for n in request.types
        if n not in names
    )
    source = (
        _normal(source) if strict else _rows_to_learn_from(_normal(source), request)
    )
    ignored = {
        name: report
        for name, report in source.ignored.items()
        if name not in {*request.label, *request.types}
    }
    ordered = request.named("ignore")
    unread = ignored.keys() - ordered
    ignored |= {name: ColumnReport(name) for name in names if name in ordered}
    result = replace(
        source, ignored=ignored, refused={}, notes={**source.notes}, notations={}
    )
    kept = [j for j, name in enumerate(names) if name not in unread]
    texts = scanned(source, kept, request)
    if not strict:
        result.notes.update(decide_by_others({names[j]: texts[j] for j in texts}))
    chosen: list[tuple[int, Kind, str]] = []
    for j in kept:
        name = names[j]
        held = source.kinds[j]
        text = texts.get(j) or TextColumn(request.reads(name), request.decimal)
        reason: str | None = (
            f"the type of {name!r} is not supported; make it numbers or strings"
        )
        if held:
            reason = text.ambiguity(name)
        if (
            reason and held and strict and not text.ordered
        ):  # lists come without orders of types
            result.notes[name] = reason
            reason = None
            text.notations.clear()
        needed = strict or text.ordered or name in request.label
        if reason and (name in ignored or not needed):
            report = ColumnReport(
                name, examples=tuple(filter(None, [text.ambiguous_word])), advice=reason
            )
            ignored.setdefault(name, report)
            continue
        if reason:
            result.refused[name] = Flaw(source.places[j].loc, reason)
        chosen.append((j, *text.type(held, is_class=request.is_class(name))))
    reject(
        flaw
        for name, flaw in result.refused.items()
        if not source.kinds[names.index(name)]
    )
    return _read_by(result, chosen, request)


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
                    elif (
                        held == "text"
                        and not pc.all(pc.string_is_ascii(arrays[j])).as_py()
                    ):
                        arrays[j] = normal_words(arrays[j])
            yield arrays

    return replace(source, batches=batches)


def _rows_to_learn_from(source: Source, request: UploadRequest) -> Source:
    """The source without the rows that repeat its header and, by order, those without a label or of
    some classes.

    They are counted, and the types of columns do not depend on them.
    """
    # positions of the rows that are left out, batch by batch
    gaps: list[np.ndarray] = []
    counts: dict[str, dict[str, int]] = {}
    reasons_of = _reasons_by_batch(source, request)

    def batches() -> Iterator[list[Any]]:
        rows = 0
        total = Counter[str]()
        gaps.clear()
        for arrays in source.batches():
            stays = np.ones(len(arrays[0]), dtype=bool)
            for reason, leaves in reasons_of(arrays):
                total[reason] += int(np.count_nonzero(stays & leaves))
                stays &= ~leaves
            if not stays.all():
                gaps.append(rows + np.flatnonzero(~stays))
            rows += len(stays)
            yield (
                arrays
                if stays.all()
                else [array.filter(pa.array(stays)) for array in arrays]
            )
        unused = {
            reason
            for reason in (_REPEATS_HEADER, _TOTALS, _UNLABELLED)
            if not total[reason]
        }
        if request.label and total.keys() - unused:
            counts[request.label[0]] = {
                name: total[name] for name in total if name not in unused
            }

    places = [replace(place, left_out=gaps) for place in source.places]
    return replace(source, places=places, batches=batches, left_out=counts)


def _reasons_by_batch(
    source: Source, request: UploadRequest
) -> Callable[[list[Any]], Iterator[tuple[str, np.ndarray]]]:
    """A function from a batch to the reasons to leave rows out, each with its rows, bool (n,)."""
    names = [place.name for place in source.places]
    labels = [
        j for j, name in enumerate(names) if name in request.label and source.kinds[j]
    ]
    ordered = [j for j in labels if request.reads(names[j]) not in (None, "category")]
    texts = scanned(source, ordered, request) if request.drop_unlabelled else {}
    types: dict[int, tuple[Kind, str]] = {}
    for j in labels:
        text = texts.get(j) or TextColumn(
            request.reads(names[j]), request.decimal, is_plain=False
        )
        types[j] = text.type(source.kinds[j], is_class=request.is_class(names[j]))
    uncounted = replace(source, left_out={})

    def reasons(arrays: list[Any]) -> Iterator[tuple[str, np.ndarray]]:
        yield _REPEATS_HEADER, _repeats(arrays, names)
        if labels:
            yield _TOTALS, _are_totals(arrays, labels)
        if request.drop_unlabelled:
            columns = [
                _read(
                    arrays[j],
                    source.places[j],
                    *types[j],
                    0,
                    request.decimal,
                    uncounted,
                )
                for j in labels
            ]
            missing = [
                column.is_null().to_numpy(zero_copy_only=False) for column in columns
            ]
            yield _UNLABELLED, np.logical_or.reduce(missing)
        for name in request.drop_classes if labels else ():
            is_ordered = names[labels[0]] in request.types
            reason = f"rows with {name!r}, which are left out"
            yield reason, _has_class(arrays[labels[0]], name, exact=is_ordered)

    return reasons


def _repeats(arrays: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """Whether a row (n,) of text repeats the header, as in files that were joined."""
    rows = np.arange(len(arrays[0]))
    for array, name in zip(arrays, names, strict=True):
        if not rows.size or not holds_text(array.type):
            return np.zeros(len(array), dtype=bool)
        remaining = array if len(rows) == len(array) else array.take(pa.array(rows))
        cells = remaining.cast(pa.string())
        rows = rows[
            pc.equal(cells, name).fill_null(False).to_numpy(zero_copy_only=False)
        ]
    return np.isin(np.arange(len(arrays[0])), rows)


def _are_totals(arrays: Sequence[Any], labels: Sequence[int]) -> np.ndarray:
    """Whether a row (n,) has no label, and a first cell such as `Total`, as spreadsheets end."""
    if not holds_text(arrays[0].type):
        return np.zeros(len(arrays[0]), dtype=bool)
    words = as_words(arrays[0]).cast(pa.string())
    is_total = pc.match_substring_regex(words, _TOTAL).fill_null(False)
    for j in labels:
        is_total = pc.and_(is_total, arrays[j].is_null())
    return is_total.to_numpy(zero_copy_only=False)


def _has_class(array: Any, name: str, *, exact: bool) -> np.ndarray:
    """Where the label (n,) is the class, in any spelling unless it has to be `exact`."""
    words = as_words(array).cast(pa.string())
    key = normal if exact else _as_class
    spellings = [word for word in words_of(words) if key(word) == key(name)]
    return pc.is_in(words, pa.array(spellings, pa.string())).to_numpy(
        zero_copy_only=False
    )


def _as_class(word: str) -> float | str:
    """Equal for the spellings of one class, and of one number."""
    return float(word) if is_number(word, ".") else spelling(word)


def _read_by(
    source: Source, chosen: Sequence[tuple[int, Kind, str]], request: UploadRequest
) -> Source:
    """The chosen columns, each read by its kind and notation."""
    places = [source.places[j] for j, _, _ in chosen]
    for j, _, notation in chosen:
        if notation:
            source.notations[source.places[j].name] = notation

    def batches() -> Iterator[list[Any]]:
        rows = 0
        source.left_out.clear()
        for arrays in source.batches():
            yield [
                _read(
                    arrays[j],
                    source.places[j],
                    kind,
                    notation,
                    rows,
                    request.decimal,
                    source,
                )
                for j, kind, notation in chosen
            ]
            rows += len(arrays[0])

    return replace(
        source, places=places, kinds=[kind for _, kind, _ in chosen], batches=batches
    )


def _read(
    array: Any,
    place: Location,
    kind: Kind,
    notation: str,
    rows: int,
    decimal: str,
    source: Source,
) -> Any:
    """An array by its kind; words that are no numbers are missing, which the source counts. `rows`
    is the number of rows before it.
    """
    if kind == "categorical":
        with below(place.loc):
            return as_words(array)
    numbers, unread = (
        by_notation(array, notation) if notation else as_numbers(array, decimal)
    )
    if unread is not None:
        positions = np.flatnonzero(unread.to_numpy(zero_copy_only=False)).tolist()
        word = array[positions[0]].as_py()[:MAX_SHOWN]
        msg = f"{word!r} is not a number; such values count as missing"
        counts = source.left_out.setdefault(place.name, {})
        reason = next(iter(counts), place.flaw(rows + positions[0], msg).msg)
        counts[reason] = counts.get(reason, 0) + len(positions)
    return numbers
