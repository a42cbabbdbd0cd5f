"""Values as people read them: in columns in a terminal, and as HTML in a notebook."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_MOST_ROWS = 20  # of a list in HTML
_MOST_CHARACTERS = 200  # of a value in HTML


def printable(text: str) -> str:
    """The text without characters that would move the cursor of a terminal."""
    return "".join(character for character in text if character.isprintable())


def table_text(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Rows in columns, numbers to the right."""
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    numeric = [
        all(isinstance(row.get(name), int | float | None) for row in rows)
        for name in names
    ]

    def line(values: Sequence[str]) -> str:
        padded = zip(values, widths, numeric, strict=True)
        return "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in padded
        ).rstrip()

    return "\n".join(map(line, [names, *cells]))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        items = [(name, item) for name, item in value.items() if item is not None]
        return ", ".join(f"{name} {_cell(item)}" for name, item in items)
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return printable(str(value))


def figures_text(document: Mapping[str, Any]) -> str:
    """The single values of a document, one a line."""
    shown = {
        name: value
        for name, value in document.items()
        if not isinstance(value, list | dict) and value is not None
    }
    width = max(map(len, shown), default=0)
    return "\n".join(
        f"{name.ljust(width)}  {_cell(value)}" for name, value in shown.items()
    )


def columns_text(columns: Sequence[Mapping[str, Any]], max_columns: int) -> str:
    """How the columns of a table were read; those with advice come first."""
    titles = {"name": "column", "type": "read as", "advice": "what to change"}
    rows = []
    for column in columns:
        fields = {**column, "type": column.get("form") or column.get("type")}
        if not fields["type"]:  # it is not used
            fields["advice"] = f"left out: {column.get('advice') or 'as ordered'}"
        rows.append({titles.get(name, name): value for name, value in fields.items()})
    rows.sort(key=lambda row: not row.get("what to change"))
    names = ["column", "read as", "examples", "missing", "distinct", "what to change"]
    text = table_text(rows[:max_columns], names)
    if len(rows) <= max_columns:
        return text
    return f"{text}\nand {len(rows) - max_columns} more columns"


def html_of(title: str, document: Mapping[str, Any]) -> str:
    """The title, then tables of the single values, and of the first rows of each list of objects.

    All text is escaped.
    """
    single: list[Mapping[str, Any]] = []
    tables = {"": single}
    for name, value in document.items():
        if _is_table(value):
            tables[name] = value
        elif value not in (None, [], {}):
            single.append({"": name, " ": value})
    shown = [_rows_html(name, rows) for name, rows in tables.items() if rows]
    return "\n".join([f"<strong>{escape(title)}</strong>", *shown])


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _rows_html(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(
        dict.fromkeys(
            name
            for row in rows[:_MOST_ROWS]
            for name, value in row.items()
            if not _is_table(value)
        )
    )
    lines = [
        [_cell(row.get(name))[:_MOST_CHARACTERS] for name in names]
        for row in rows[:_MOST_ROWS]
    ]
    cells = [
        "".join(f"<td>{escape(text)}</td>" for text in line) for line in [names, *lines]
    ]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    title = escape(caption)
    if len(rows) > _MOST_ROWS:
        title += f" (the first {_MOST_ROWS} of {len(rows):,})"
    return f"<table><caption>{title}</caption>{body}</table>"
