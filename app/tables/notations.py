"""Text that stands for numbers: amounts such as 1.259,10 €, shares such as 12 %, moments as days
since 1970, and booleans as 1 and 0.

A notation is how a column writes them, as a text that cards keep: `number:1,234.5` or
`number:1.234,5`, followed by a unit where there is one; `date` for ISO 8601, or `date:` and a
pattern of `strptime` beside it, both with a zone behind the time where there is one; `boolean` for
`true` and `false` in any case. Where several fitted all words of a column, they are joined by `|`,
and a word that they read otherwise is not read. Files, lists and requests are read by `reader`
alone, so that no value is read in two ways.
"""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

from app.tables.text import is_number

POINT = "number:1,234.5"
COMMA = "number:1.234,5"
ISO = "date"
BOOLEAN = "boolean"

_CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BRL|MXN|ZAR|TRY|KRW|SGD"
    "|HKD|ILS|UAH"
)
_UNIT = f"[%$€£¥₹₽₩₺₪₫฿₦₱₴]|{_CODES}"
_SIGN = "[+-]|\u2212"
_GAP = "['\u2019 \u00a0\u202f]"  # a blank or an apostrophe between groups of digits
_AMOUNT = re.compile(
    rf"(?P<open>\()?(?P<sign>{_SIGN})?\s?(?P<unit>{_UNIT})?\s?(?P<inner>{_SIGN})?"
    rf"(?P<digits>\d(?:[\d.,]|{_GAP}(?=\d))*)"
    # SAP writes a minus behind the digits, accountants write brackets.
    rf"(?P<after>{_SIGN})?\s?(?P<behind>{_UNIT})?(?(open)\))"
)
# The digits are in groups of three or in none; one sign separates all groups of a word.
_DIGITS = {
    POINT: re.compile(
        rf"(\d{{1,3}}(?:(,|{_GAP})\d{{3}})(?:\2\d{{3}})*|\d+)(\.\d+)?", re.ASCII
    ),
    COMMA: re.compile(
        rf"(\d{{1,3}}(?:(\.|{_GAP})\d{{3}})(?:\2\d{{3}})*|\d+)(,\d+)?", re.ASCII
    ),
}
_ZONE = r" ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?[0-5]\d){0,2})"
_ISO = re.compile(
    r"(?P<local>\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?)"
    rf"(?(time)(?:{_ZONE})?)",
    re.ASCII,
)
_MOMENT = re.compile(
    rf"(?P<local>.*:\d\d(?:[.,]\d+)?(?: ?[AaPp][Mm])?){_ZONE}", re.ASCII
)
_ZONE_OF_PATTERN = re.compile(rf"(?<=%[MSfp]){_ZONE}$", re.ASCII)
_DAYS = "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d"
_DATES = tuple(
    f"date:{day}{time}"
    for day in _DAYS
    for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
)
_LIKE_A_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?", re.ASCII)
_DIRECTIVES = re.compile(r"%(.)")
_MOST_CHARACTERS = 100  # of a word that is read: a request may hold megabytes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_FIRST_DAY = -719_162  # of year 1, counted from 1970
_END_OF_DAYS = 2_932_897  # the first day after year 9999
_TRUTHS = {"true": 1.0, "1": 1.0, "1.0": 1.0, "false": 0.0, "0": 0.0, "0.0": 0.0}


def check(notation: str) -> str:
    """The notation, without a unit, that a request orders; ValueError where it is none."""
    directives = _DIRECTIVES.findall(notation)
    known = set(directives).intersection("YymbdHIpMSf")
    is_date = (
        notation.startswith("date:")
        and len(directives) == len(known)
        and "d" in known
        and len(known.intersection("Yymb")) == 2
    )
    if not is_date and notation not in {POINT, COMMA, ISO, BOOLEAN}:
        raise ValueError(
            f"{notation!r} is no form: send {POINT}, {COMMA}, {BOOLEAN}, {ISO} (ISO 8601),"
            " or such as date:%d/%m/%Y"
        )
    return notation


def candidates(word: str, decimal: str = ".") -> list[str]:
    """The notations, with their units, in which this word may be written, in a file with such a
    `decimal` sign.

    A comma was requested, so only commas are tried; a point may be the default, so both are.
    """
    if word.lower() in ("true", "false"):
        return [BOOLEAN]
    if _LIKE_A_DATE.fullmatch(word):
        dates = [ISO] if _ISO.fullmatch(word) else _dates_like(word)
        fitting = [notation for notation in dates if reader(notation)(word) is not None]
        if fitting:
            return fitting
    amount = _AMOUNT.fullmatch(word)
    unit = (amount["unit"] or amount["behind"] or "") if amount else ""
    bases = (POINT, COMMA) if decimal == "." else (COMMA,)
    notations = [f"{base} {unit}".rstrip() for base in bases]
    return [notation for notation in notations if reader(notation)(word) is not None]


def _dates_like(word: str) -> list[str]:
    """The notations of dates with the separator of the word, and with a time if it has one."""
    has_time = ":" in word
    return [
        notation
        for notation in _DATES
        if has_time == (":" in notation[len("date:") :])
        and notation[len("date:%d")] in word
    ]


def without_unit(notation: str) -> str:
    """The notation as a request orders it."""
    return notation[: len(POINT)] if notation.startswith("number:") else notation


def shown(number: float, notation: str | None) -> str:
    """A number as people read it, a moment as a date with its time, a boolean as JSON has it.

    A number outside the years 1 to 9999, or other than 0 and 1, is shown as a number.
    """
    if notation == BOOLEAN and number in (0, 1):
        return "true" if number else "false"
    if not (notation or "").startswith(ISO) or not _FIRST_DAY <= number < _END_OF_DAYS:
        return f"{number:.12g}"
    text = (_EPOCH + number * _DAY).replace(tzinfo=None).isoformat(timespec="seconds")
    return text[: len("2026-01-01")] if number.is_integer() else f"{text}Z"


@lru_cache(maxsize=10_000)
def reader(notation: str) -> Callable[[str], float | None]:
    """The function that reads a word in this notation, right to the last bit of a float64; it
    returns None for any other word.
    """
    if "|" in notation:
        return partial(_agreed, [reader(part) for part in notation.split("|")])
    if notation == BOOLEAN:
        return lambda word: _TRUTHS.get(word.lower())
    if notation.startswith(ISO):
        return partial(_days, _ZONE_OF_PATTERN.sub("", notation[len(ISO) + 1 :]))
    base = without_unit(notation)
    unit = notation[len(POINT) + 1 :]
    return lambda word: _amount(word, base, unit)


def _agreed(
    readers: Sequence[Callable[[str], float | None]], word: str
) -> float | None:
    """The number, where the notations that read the word agree on it."""
    numbers = {read(word) for read in readers} - {None}
    return numbers.pop() if len(numbers) == 1 else None


def _days(pattern: str, word: str) -> float | None:
    """Days since 1970 of a moment in the pattern or in ISO 8601, in UTC where it names no zone."""
    iso = _ISO.fullmatch(word)
    if len(word) > _MOST_CHARACTERS or not (pattern or iso):
        return None
    parts = iso or _MOMENT.fullmatch(word)
    local, zone = parts.group("local", "zone") if parts else (word, None)
    try:
        is_utc = zone in (None, "Z", "UTC", "GMT")
        offset = (
            UTC if is_utc else datetime.fromisoformat(f"1970-01-01T00:00{zone}").tzinfo
        )
        if iso:
            moment = datetime.fromisoformat(local).replace(tzinfo=offset)
        else:
            moment = datetime.strptime(local, pattern).replace(tzinfo=offset)
    except ValueError:
        return None
    return (moment - _EPOCH) / _DAY


def _amount(word: str, base: str, unit: str) -> float | None:
    """The number; a currency may be left out, a percent sign may not: 12 would be a hundred times
    12 %.
    """
    if len(word) > _MOST_CHARACTERS:
        return None
    if base == POINT and unit != "%" and is_number(word):
        return float(word) if math.isfinite(float(word)) else None
    amount = _AMOUNT.fullmatch(word)
    if amount is None or not _DIGITS[base].fullmatch(amount["digits"]):
        return None
    units = [symbol for symbol in (amount["unit"], amount["behind"]) if symbol]
    if units != [unit] and (units or unit == "%"):
        return None
    places = (
        amount["sign"],
        amount["inner"],
        amount["after"],
        "-" if amount["open"] else "",
    )
    signs = [sign for sign in places if sign]
    if len(signs) > 1:
        return None
    separator = "," if base == POINT else "[.]"
    digits = re.sub(f"{_GAP}|{separator}", "", amount["digits"]).replace(",", ".")
    sign = "" if signs in ([], ["+"]) else "-"
    exponent = "e-2" if unit == "%" else ""
    return float(sign + digits + exponent)
