"""Ten files as people export them, of 120 rows; and what has to be ordered, besides the label, where one is refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

N = 120
_RANDOM = np.random.default_rng(31)
_AMOUNTS = [float(cents) / 100 for cents in _RANDOM.integers(100, 900_000, N)]
_DAYS = [
    date(2024, 1, 1) + timedelta(days=int(days)) for days in _RANDOM.integers(0, 700, N)
]
_LABELS = ["leaves" if amount < 4500 else "stays" for amount in _AMOUNTS]
_LABELS[::9] = [{"leaves": "stays", "stays": "leaves"}[label] for label in _LABELS[::9]]


class Export(NamedTuple):
    """A file, its label, how it is uploaded, and which of its columns are features."""

    content: bytes
    label: str
    asked: dict[str, str]
    features: list[str]
    ignored: list[str]
    refused_without: tuple[str, ...] = ()  # parts of `asked` that the refusal names


def written(
    columns: dict[str, list[object]],
    delimiter: str = ",",
    encoding: str = "utf-8",
    *,
    header: bool = True,
) -> bytes:
    """The columns as a file of separated values."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    rows = zip(*columns.values(), strict=True)
    writer.writerows([list(columns), *rows] if header else rows)
    return text.getvalue().encode(encoding)


def rows_of(export: Export) -> Iterator[dict[str, str]]:
    """The rows of a file without their labels, every value as the text that the file has."""
    text = export.content.decode(export.asked.get("encoding", "utf-8"))
    delimiter = export.asked.get("delimiter", ",")
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    first = next(lines)
    if export.asked.get("header") == "none":
        lines = csv.reader(io.StringIO(text), delimiter=delimiter)
        first = [f"column_{j + 1}" for j in range(len(first))]
    for line in lines:
        yield {
            name: value
            for name, value in zip(first, line, strict=True)
            if name != export.label
        }


def german(amount: float) -> str:
    """As Germans write an amount."""
    return f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))


def _exports() -> dict[str, Export]:
    american, european = (
        [f"{amount:,.2f}" for amount in _AMOUNTS],
        [german(amount) for amount in _AMOUNTS],
    )
    crm = {
        "customer_id": list(range(7000, 7000 + N)),
        "name": [f"Customer {i} Ltd" for i in range(N)],
        "since": _DAYS,
        "income": american,
        "balance": [f"{amount} €" for amount in european],
        "discount": [f"{i % 30} %" for i in range(N)],
        "last seen": [f"{day:%d/%m/%Y}" for day in _DAYS],
        "region": ["north", "south", "", "west"] * (N // 4),
        "churn": _LABELS,
    }
    survey = {
        "q1": american,
        "answer": [
            {"leaves": ("yes", "YES", "Yes ")[i % 3], "stays": "no"}[word]
            for i, word in enumerate(_LABELS)
        ],
    }
    log = {
        "at": [f"{day}T{i % 24:02}:05:00Z" for i, day in enumerate(_DAYS)],
        "ms": _AMOUNTS,
        "status": _LABELS,
    }
    forms = {
        "german": [f"EUR {amount}" for amount in european],
        "french": [
            f"{amount:,.2f} €".translate({44: "\u202f", 46: ","}) for amount in _AMOUNTS
        ],
        "share": [f"{i % 9 + 1},{i % 899 + 100}" for i in range(N)],
        "day": [f"0{i % 9 + 1}/0{i % 8 + 1}/2025" for i in range(N)],
        "y": _LABELS,
    }
    two_ways = '{"share": "number:1.234,5", "day": "date:%d/%m/%Y"}'
    wide = {
        f"c{j}": _AMOUNTS if not j else _RANDOM.normal(size=N).round(3).tolist()
        for j in range(999)
    }
    partly = {
        "amount": _AMOUNTS,
        "y": [label if i < 40 else "" for i, label in enumerate(_LABELS)],
    }
    truths = {
        "amount": american,
        "gone": [{"leaves": "True", "stays": "False"}[label] for label in _LABELS],
    }
    plain = {"amount": _AMOUNTS, "day": _DAYS, "y": _LABELS}
    excel = {
        "amount": [str(amount).replace(".", ",") for amount in _AMOUNTS],
        "day": [f"{day:%d.%m.%Y %H:%M}" for day in _DAYS],
        "y": _LABELS,
    }
    unread = ["customer_id", "name"]
    return {
        "crm": Export(
            written(crm),
            "churn",
            {},
            [name for name in crm if name not in {*unread, "churn"}],
            unread,
        ),
        "semicolons": Export(
            written(excel, ";"),
            "y",
            {"delimiter": ";"},
            ["amount", "day"],
            [],
            ("delimiter",),
        ),
        "utf-16": Export(
            written(excel, "\t", "utf-16"),
            "y",
            {"delimiter": "\t", "encoding": "utf-16"},
            ["amount", "day"],
            [],
            ("encoding",),
        ),
        "survey": Export(written(survey), "answer", {}, ["q1"], []),
        "log": Export(written(log), "status", {}, ["at", "ms"], []),
        "no header": Export(
            written(plain, header=False),
            "column_3",
            {"header": "none"},
            ["column_1", "column_2"],
            [],
            ("header",),
        ),
        "a thousand columns": Export(
            written({**wide, "y": _LABELS}), "y", {}, list(wide), []
        ),
        "few labels": Export(
            written(partly),
            "y",
            {"drop_unlabelled": "true"},
            ["amount"],
            [],
            ("drop_unlabelled",),
        ),
        "truths": Export(written(truths), "gone", {}, ["amount"], []),
        "two ways": Export(
            written(forms),
            "y",
            {"types": two_ways},
            ["german", "french", "share", "day"],
            [],
        ),
    }


EXPORTS = _exports()
