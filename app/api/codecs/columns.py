"""Columns of tables as rows of features. pyarrow takes 40 MB."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.api.codecs.arrow import table_of_arrow, table_of_csv
from app.api.codecs.media_types import CSV
from app.api.codecs.npy import finite
from app.api.codecs.tables import Sheet
from app.api.memory import NUMBER, TEXT, VALUE, Charge
from app.outcomes.tables import MAX_ID
from app.requests.rows import Carried, Rows
from app.tables.features import Schema, Spellings
from app.tables.notations import ISO
from app.tables.text import (
    MAX_CATEGORY,
    MAX_POSITIONS,
    MISSING,
    normal,
    refused_category,
)
from app.tables.values import (
    LARGEST_TEXT,
    as_words,
    by_notation,
    first_longer,
    floats,
    holds_moments,
    holds_numbers,
    holds_text,
    index_columns,
    normal_words,
)
from payoff.errors import Flaw, Invalid, TooLarge, pointer, reject, unknown_at

Words = Mapping[str, Collection[str]]
"""The categories of columns by their names."""
NO_WORDS: Words = MappingProxyType({})
_HINT = "; `id` and `keep` name columns that only come back"
_ESCAPED = r'[\x00-\x1f"\\]'  # the characters that JSON writes as escapes
_ESCAPE_BYTES = 5  # of the longest escape, beside the byte of the character itself
_MAX_CELL = 1000  # characters of a cell that comes back and is not an id


def _charge_for(table: pa.Table, charge: Charge) -> None:
    """Charge for reading a table: for its numbers, and for its texts."""
    texts = [column for column in table.columns if holds_text(column.type)]
    charge(table.num_rows * table.num_columns, NUMBER)
    charge(table.num_rows * len(texts), VALUE)
    charge(sum(column.nbytes for column in texts), TEXT)


def _carried(
    sheet: Sheet, table: pa.Table, features: Collection[str]
) -> tuple[pa.Table, Carried]:
    """The table without pandas' index and the columns that only come back, and the latter."""
    fields = sheet.fields
    names = fields.carried_names
    flaws = []
    counts = Counter(table.column_names)
    for name in names:
        place = pointer("id" if name == fields.id else "keep")
        if not counts[name]:
            flaws.append(unknown_at(place, "column", name, table.column_names))
        elif counts[name] > 1:
            flaws.append(Flaw(place, f"the table has the column {name!r} twice"))
    reject(flaws)
    columns = {
        name: _column(table.column(name), name, sheet.charge, is_id=name == fields.id)
        for name in names
    }
    _check_text(
        [column for column in columns.values() if holds_text(column.type)], sheet.charge
    )
    ignored = index_columns(table.schema).union(names).difference(features)
    # Columns are selected by position, since a name may occur twice.
    positions = [i for i, name in enumerate(table.column_names) if name not in ignored]
    if len(positions) < table.num_columns:
        table = table.select(positions)
    return table, Carried(fields.id, columns, fields.keep)


def _check_text(columns: Sequence[pa.ChunkedArray], charge: Charge) -> None:
    """Charge for the text that comes back, in JSON, before it is made; TooLarge above the limit."""
    size = sum(
        (pc.sum(pc.binary_length(column)).as_py() or 0)
        + (pc.sum(pc.count_substring_regex(column, _ESCAPED)).as_py() or 0)
        * _ESCAPE_BYTES
        for column in columns
    )
    if size > LARGEST_TEXT:
        raise TooLarge(
            f"the text that comes back would take {size:,} bytes; at most {LARGEST_TEXT:,} are"
            " allowed"
        )
    charge(size, TEXT)
    charge(sum(map(len, columns)))


def _column(
    column: pa.ChunkedArray, name: str, charge: Charge, *, is_id: bool
) -> pa.ChunkedArray:
    """A column of single values."""
    is_moment = pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)
    if is_moment or pa.types.is_decimal(column.type):
        charge(len(column))  # as text
        try:
            column.slice(0, 1).cast(pa.string())
        except pa.ArrowInvalid as error:  # the time zone is unknown
            message = f"{name!r} cannot be written as text: {error}"
            raise Invalid.at(pointer(name), message) from error
    elif not (holds_numbers(column.type) or holds_text(column.type)):
        raise Invalid.at(
            pointer(name),
            f"the type of {name!r} is '{column.type}'; numbers, text and dates come back",
        )
    max_length = MAX_ID if is_id else _MAX_CELL
    row = first_longer(column, max_length) if holds_text(column.type) else -1
    if row >= 0:
        raise Invalid.at(
            pointer(name, row),
            f"what comes back has at most {max_length} characters a cell",
        )
    return column


def read(
    sheet: Sheet,
    numbers: Collection[str],
    features: Collection[str],
    words: Words = NO_WORDS,
) -> tuple[pa.Table, Carried]:
    """The columns of a sheet, and those of them that come back with the answer.

    Text comes as strings; of CSV the columns in `numbers` are numbers, all others text, where a
    cell such as NA is missing if it is none of the column's `words`. Raises Invalid, or what
    `charge` raises.
    """
    kind, body, fields, charge = sheet
    if kind == CSV:
        as_text = dict.fromkeys(fields.carried_names, MISSING)  # an id may be NA
        charge(len(body) // 2, NUMBER)  # each number has a digit and a delimiter
        table = table_of_csv(body, numbers, fields, {**as_text, **words})
    else:
        fields.refuse_dialect()
        table = table_of_arrow(body, charge)
    _charge_for(table, charge)
    return _carried(sheet, table, features)


def rows_of_sheet(sheet: Sheet, schema: Schema, names: Collection[str] = ()) -> Rows:
    """The rows of a table.

    The table has a column for each feature, by name, in any order, null or empty where missing. Its
    numbers in columns of `names` that are no features are `Rows.columns`.
    """
    extended = schema.with_numbers([name for name in names if name not in schema.names])
    categories = {
        feature.name: feature.categories
        for feature in schema.features
        if feature.type == "categorical"
    }
    table, carried = read(sheet, _numeric_names(extended), extended.names, categories)
    table = table.rename_columns([normal(name) for name in table.column_names])
    extra = [
        name
        for name in extended.names[len(schema.names) :]
        if name in table.column_names
    ]
    spare = [
        name for name in table.column_names if name in schema.ignored.difference(extra)
    ]
    table = table.drop_columns(spare) if spare else table
    rows = _rows_of_table(table, schema.with_numbers(extra)).apart(extra)
    return rows._replace(carried=carried)


def _rows_of_table(table: pa.Table, schema: Schema) -> Rows:
    reject(_flaws_of_names(Counter(table.column_names), schema))
    X = np.empty((table.num_rows, len(schema.names)))
    warnings: list[str] = []
    for j, name in enumerate(schema.names):
        column = table.column(name)
        if not _fits(column.type, schema, j):
            needed = (
                "strings"
                if j in schema.readers or j in schema.categorical
                else "numbers"
            )
            raise Invalid.at(
                pointer(name),
                f"the type of {name!r} is '{column.type}'; it must be {needed}",
            )
        if j in schema.readers:
            column = normal_words(column) if holds_text(column.type) else column
            numbers, strange = by_notation(column, schema.features[j].form)
            if strange is not None:
                reject(
                    Flaw(flaw.loc + pointer(j), flaw.msg)
                    for flaw in schema.unread(j, column.to_pylist())
                )
            X[:, j] = numbers.to_numpy()
        elif j in schema.categorical:
            X[:, j], notes = codes_of(column, schema, j)
            warnings += notes
        else:
            X[:, j] = floats(column).to_numpy()
    return Rows(finite(X), warnings)


def _numeric_names(schema: Schema) -> set[str]:
    """The features that are numbers, and have no form of text."""
    return {
        feature.name
        for feature in schema.features
        if feature.type == "numeric" and not feature.form
    }


def _flaws_of_names(counts: Mapping[str, int], schema: Schema) -> Iterator[Flaw]:
    """What is wrong with the names of columns, of which there are so many."""
    yield from schema.flaws_of("", dict.fromkeys(counts), hint=_HINT)
    yield from (
        Flaw(pointer(name), "the table has this column twice")
        for name in counts
        if counts[name] > 1
    )


def _fits(kind: pa.DataType, schema: Schema, j: int) -> bool:
    """Whether a column of this type has what feature `j` holds."""
    form = schema.features[j].form
    if holds_text(kind):
        return j in schema.readers or j in schema.categorical
    if holds_moments(kind):
        return form.startswith(ISO) or j in schema.categorical
    if pa.types.is_boolean(kind):
        return schema.takes(j, {bool}) or not (form or j in schema.categorical)
    return pa.types.is_null(kind) or (holds_numbers(kind) and schema.takes(j, {float}))


def codes_of(
    column: pa.ChunkedArray, schema: Schema, j: int
) -> tuple[np.ndarray, list[str]]:
    """A column as what `Schema.encode` makes of feature `j`, and its warnings.

    Raises Invalid at `/row/column` of words that no category may be.
    """
    words = column if holds_text(column.type) else as_words(column)
    row = first_longer(words, MAX_CATEGORY)
    if row >= 0:
        raise Invalid.at(pointer(row, j), refused_category(str(words[row])) or "")
    categories = pa.array(schema.features[j].categories, words.type)
    positions = pc.index_in(words, value_set=categories)
    if positions.null_count > words.null_count:
        words = normal_words(words)
        positions = pc.index_in(words, value_set=categories)
    codes = np.array(positions.cast(pa.float64()))
    unseen = np.flatnonzero(pc.and_(words.is_valid(), positions.is_null()).to_numpy())
    if unseen.size:
        other_codes = _other_codes(words.take(unseen), column.type, schema.spellings(j))
        codes[unseen] = other_codes
        unseen = unseen[np.isnan(other_codes)]
    if not unseen.size:
        return codes, []
    unseen_words = words.take(unseen).unique().to_pylist()
    odd = [word for word in unseen_words if word and refused_category(word)]
    if odd:
        rows = np.flatnonzero(pc.is_in(words, value_set=pa.array(odd, words.type)))
        reject(
            Flaw(pointer(i, j), refused_category(words[int(i)].as_py()) or "")
            for i in rows
        )
    example = words[int(unseen[0])].as_py()
    return codes, [
        schema.unseen(
            j, unseen[:MAX_POSITIONS].tolist(), unseen.size, len(words), example
        )
    ]


def _other_codes(
    words: pa.ChunkedArray, kind: pa.DataType, spellings: Spellings
) -> np.ndarray:
    """The codes of other spellings of categories, sent as this type; NaN for unknown words."""
    is_number = holds_numbers(kind) and not pa.types.is_boolean(kind)
    codes = spellings.numbers if is_number else spellings.texts
    positions = pc.index_in(words, value_set=pa.array([*codes], words.type)).fill_null(
        len(codes)
    )
    return np.array([*codes.values(), np.nan])[positions.to_numpy()]
