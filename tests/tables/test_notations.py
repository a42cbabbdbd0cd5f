"""Amounts and moments in text, against `decimal` and `fractions`; which forms a word may have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

from app.tables.notations import (
    BOOLEAN,
    COMMA,
    ISO,
    POINT,
    candidates,
    check,
    reader,
    shown,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written(number: Decimal, group: str, mark: str, pattern: str) -> str:
    """The number as people write it, slowly: digits in groups of three, in a pattern such as `-# €`."""
    sign, text = ("-" if number < 0 else ""), f"{abs(number):,f}"
    body = text.translate({ord(","): group, ord("."): mark})
    return pattern.replace("-", sign).replace("#", body)


@pytest.mark.parametrize(
    ("base", "mark", "groups"),
    [
        (POINT, ".", (",", "'", " ", "\u202f", "")),
        (COMMA, ",", (".", "\u2019", "\u00a0", "")),
    ],
)
def test_amounts_are_read_to_the_last_bit(base, mark, groups):
    digits = (
        "0",
        "0.1",
        "7.05",
        "999",
        "1000.5",
        "1234567.89",
        "8999999999999.9",
        "123456789012345678901234.5",
    )
    for text, sign, group, (pattern, unit) in product(
        digits,
        (1, -1),
        groups,
        [
            ("-#", ""),
            ("#-", ""),
            ("#- €", "€"),
            ("-#", "€"),
            ("-€#", "€"),
            ("€ -#", "€"),
            ("-# %", "%"),
            ("CHF -#", "CHF"),
        ],
    ):
        number = sign * Decimal(text)
        word = written(number, group, mark, pattern)
        found = reader(f"{base} {unit}".strip())(word)
        if unit == "%" and pattern == "-#":
            continue
        assert found == float(number / 100 if unit == "%" else number), word


def test_what_is_no_amount_is_not_read():
    words = [
        "1,23,456",
        "12,34",
        "1,234,5",
        "1.2.3",
        "1 2",
        "1e999",
        "٣",
        "",
        "€",
        "5 $ €",
        "5 %",
        "SKU 5",
    ]
    words += ["(-5)", "(5", "--5", "-€-5", "-5-", "5--", "(5-)"]
    assert [word for word in words if reader(f"{POINT} €")(word) is not None] == []


def test_a_percent_sign_is_never_guessed():
    assert (
        reader(f"{POINT} %")("12"),
        reader(POINT)("12 %"),
        reader(f"{POINT} €")("12"),
    ) == (
        None,
        None,
        12,
    )


@pytest.mark.parametrize(
    ("word", "form", "moment"),
    [
        ("1969-12-31", ISO, datetime(1969, 12, 31, tzinfo=UTC)),
        (
            "2026-03-04 05:06:07.000001",
            ISO,
            datetime(2026, 3, 4, 5, 6, 7, 1, tzinfo=UTC),
        ),
        ("2026-03-04T05:06+05:30", ISO, datetime(2026, 3, 3, 23, 36, tzinfo=UTC)),
        ("2026-03-04 05:06:07+00", ISO, datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        (
            "2026-03-04 05:06:07.5-0130",
            ISO,
            datetime(2026, 3, 4, 6, 36, 7, 500_000, tzinfo=UTC),
        ),
        ("2026-03-04 05:06:07 UTC", ISO, datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        (
            "2026-03-04 05:06:07.000 +0100",
            ISO,
            datetime(2026, 3, 4, 4, 6, 7, tzinfo=UTC),
        ),
        (
            "2026-03-04 05:06:07.0000000 -08:00",
            ISO,
            datetime(2026, 3, 4, 13, 6, 7, tzinfo=UTC),
        ),
        (
            "1890-03-04 05:06:07+00:53:28",
            ISO,
            datetime(1890, 3, 4, 4, 12, 39, tzinfo=UTC),
        ),
        ("9999-12-31 23:59:59", ISO, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("0001-01-01", ISO, datetime(1, 1, 1, tzinfo=UTC)),
        (
            "14.3.2026 05:06:07 +02:00",
            "date:%d.%m.%Y %H:%M:%S",
            datetime(2026, 3, 14, 3, 6, 7, tzinfo=UTC),
        ),
        (
            "3/14/2026 2:05 PM GMT",
            "date:%m/%d/%Y %I:%M %p",
            datetime(2026, 3, 14, 14, 5, tzinfo=UTC),
        ),
        (
            "4.3.2026 05:06",
            "date:%d.%m.%Y %H:%M",
            datetime(2026, 3, 4, 5, 6, tzinfo=UTC),
        ),
        (
            "3/14/2026 2:05 PM",
            "date:%m/%d/%Y %I:%M %p",
            datetime(2026, 3, 14, 14, 5, tzinfo=UTC),
        ),
    ],
)
def test_moments_are_days_since_1970(word, form, moment):
    days = Fraction((moment - EPOCH) // timedelta(microseconds=1), 86_400 * 10**6)
    assert candidates(word) == [form]
    assert reader(form)(word) == float(days)
    assert reader("date:%d/%m/%y")(word) == (float(days) if form == ISO else None)
    assert shown(float(days), form).startswith(f"{moment.date()}")


@pytest.mark.parametrize(
    "word",
    [
        *(
            "2026-02-30",
            "2026-1-5",
            "20260105",
            "31.12.26",
            "1.1.2026x",
            "2026-01-01T25:00",
            "NA",
        ),
        *(
            "2026-01-01 12:00+25",
            "2026-01-01 12:00 +01:75",
            "2026-01-01 12:00 CET",
            "2026-01-01 Z",
        ),
    ],
)
def test_what_is_no_moment_has_no_form_of_one(word):
    assert not [form for form in candidates(word) if form.startswith(ISO)]


def test_a_zone_that_a_pattern_names_is_read_in_each_word():
    read = reader("date:%d.%m.%Y %H:%M+01")
    assert read("14.03.2026 13:00+01") == read("14.03.2026 14:00 +02:00") == 20526.5
    assert (read("14.03.2026 12:00"), read("14.03.2026"), reader(ISO)("")) == (
        20526.5,
        None,
        None,
    )


@pytest.mark.parametrize(
    "number", [1e9, -1e9, 2932897.0, 1e300, float("inf"), float("nan")]
)
def test_what_cannot_be_shown_as_a_date_is_shown_as_a_number(number):
    assert shown(number, ISO) == f"{number:.12g}"


def test_booleans_are_read_in_any_case_and_never_among_other_numbers():
    assert [candidates(word) for word in ("true", "FALSE", "yes", "1")][:3] == [
        [BOOLEAN],
        [BOOLEAN],
        [],
    ]
    words = ["True", "tRUE", "1", "1.0", "FALSE", "false", "0", "2", "yes", ""]
    assert list(map(reader(BOOLEAN), words)) == [1, 1, 1, 1, 0, 0, 0, None, None, None]
    assert [shown(number, BOOLEAN) for number in (1, 0, 0.5)] == [
        "true",
        "false",
        "0.5",
    ]


def test_forms_that_a_column_left_open_read_what_they_agree_on():
    read = reader(f"{POINT} €|{COMMA} €")
    assert [read(word) for word in ("12 €", "1.259,10 €", "1,259.10")] == [
        12,
        1259.1,
        1259.1,
    ]
    assert [read(word) for word in ("1.200 €", "x")] == [None, None]


@pytest.mark.parametrize("sign", "9,.'x€ (")
def test_long_words_are_read_in_time_that_grows_with_their_length(sign):
    assert candidates(sign * 10**6 + "x") == []


def test_what_can_be_meant_in_two_ways_has_two_forms():
    assert candidates("1,100") == [POINT, COMMA]
    assert candidates("1,100", ",") == [COMMA]
    assert candidates("03/04/2026") == ["date:%d/%m/%Y", "date:%m/%d/%Y"]
    assert candidates("13/04/2026") == ["date:%d/%m/%Y"]


@pytest.mark.parametrize(
    "form",
    [
        "number:1234",
        "date:",
        "date:%d",
        "date:%Y-%m",
        "date:%d/%m/%Y%Y",
        "date:%c",
        "text",
        f"{POINT} €",
    ],
)
def test_forms_that_cannot_be_ordered(form):
    with pytest.raises(ValueError, match="date:%d/%m/%Y"):
        check(form)


def test_forms_that_can_be_ordered():
    for form in (POINT, COMMA, ISO, BOOLEAN, "date:%d %b %y", "date:%m/%d/%Y %H:%M"):
        assert check(form) == form
