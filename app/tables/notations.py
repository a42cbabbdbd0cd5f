"""Text that stands for numbers: amounts such as 1.259,10 €, shares such as 12 %, moments as days
since 1970, and booleans as 1 and 0.

A form says how a column writes them, in a text that cards keep: `number:1,234.5` or
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

POINT, COMMA, ISO, BOOLEAN = "number:1,234.5", "number:1.234,5", "date", "boolean"

_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BRL|MXN|ZAR|TRY|KRW|SGD|HKD|ILS|UAH"
# a gap parts thousands
_UNIT, _SIGN, _GAP = (
    f"[%$€£¥₹₽₩₺₪₫฿₦₱₴]|{_CODES}",
    "[+-]|\u2212",
    "['\u2019 \u00a0\u202f]",
)
_AMOUNT = re.compile(
    rf"(?P<open>\()?(?P<sign>{_SIGN})?\s?(?P<unit>{_UNIT})?\s?(?P<inner>{_SIGN})?(?P<digits>\d(?:[\d.,]|{_GAP}(?=\d))*)"
    # SAP writes a minus behind the digits, accountants write brackets.
    rf"(?P<after>{_SIGN})?\s?(?P<behind>{_UNIT})?(?(open)\))"
)
# in groups of three, or in none; the sign that parts groups in one word is always the same
_DIGITS = {
    POINT: re.compile(rf"(\d{{1,3}}(?:(,|{_GAP})\d{{3}})(?:\2\d{{3}})*|\d+)(\.\d+)?", re.ASCII),
    COMMA: re.compile(rf"(\d{{1,3}}(?:(\.|{_GAP})\d{{3}})(?:\2\d{{3}})*|\d+)(,\d+)?", re.ASCII),
}
_ZONE = r" ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?[0-5]\d){0,2})"
_ISO = re.compile(
    r"(?P<local>\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?)"
    rf"(?(time)(?:{_ZONE})?)",
    re.ASCII,
)
_MOMENT = re.compile(rf"(?P<local>.*:\d\d(?:[.,]\d+)?(?: ?[AaPp][Mm])?){_ZONE}", re.ASCII)
_ZONE_OF_PATTERN = re.compile(rf"(?<=%[MSfp]){_ZONE}$", re.ASCII)
_DAYS = "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d"
_DATES = tuple(
    f"date:{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
)
_LIKE_A_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?", re.ASCII)
_DIRECTIVES = re.compile(r"%(.)")
_LONGEST = 100  # characters of a word that is read: a request may hold megabytes
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)
_FIRST_DAY, _END_OF_DAYS = -719_162, 2_932_897  # of the years 1 to 9999
_TRUTHS = {"true": 1.0, "1": 1.0, "1.0": 1.0, "false": 0.0, "0": 0.0, "0.0": 0.0}


def check(form: str) -> str:
    """The form, without a unit, that a request orders; ValueError where it is none."""
    used = _DIRECTIVES.findall(form)
    is_date = form.startswith("date:") and len(used) == len(set(used).intersection("YymbdHIpMSf"))
    if form not in {POINT, COMMA, ISO, BOOLEAN} and not (
        is_date and "d" in used and len(set(used) & set("Yymb")) == 2
    ):
        raise ValueError(
            f"{form!r} is no form: send {POINT}, {COMMA}, {BOOLEAN}, {ISO} (ISO 8601),"
            " or such as date:%d/%m/%Y"
        )
    return form


def candidates(word: str, decimal: str = ".") -> list[str]:
    """The forms, with their units, in which this word may be written, in a file with such a
    `decimal` sign.

    A comma is one that was ordered; a point may be the default, so both are tried.
    """
    if word.lower() in ("true", "false"):
        return [BOOLEAN]
    if _LIKE_A_DATE.fullmatch(word):
        like = (form for form in _DATES if (":" in word) == (":" in form[5:]) and form[7] in word)
        dates = (ISO,) if _ISO.fullmatch(word) else like
        if fitting := [form for form in dates if reader(form)(word) is not None]:
            return fitting
    amount = _AMOUNT.fullmatch(word)
    unit = (amount["unit"] or amount["behind"] or "") if amount else ""
    forms = [f"{base} {unit}".rstrip() for base in ((POINT, COMMA) if decimal == "." else (COMMA,))]
    return [form for form in forms if reader(form)(word) is not None]


def without_unit(form: str) -> str:
    """The form as a request orders it."""
    return form[: len(POINT)] if form.startswith("number:") else form


def shown(number: float, form: str | None) -> str:
    """A number as people read it, a moment as a date with its time, a boolean as JSON has it.

    What is no moment of the years 1 to 9999, and no boolean, is shown as the number that it is.
    """
    if form == BOOLEAN and number in (0, 1):
        return "true" if number else "false"
    if not (form or "").startswith(ISO) or not _FIRST_DAY <= number < _END_OF_DAYS:
        return f"{number:.12g}"
    text = (_EPOCH + number * _DAY).replace(tzinfo=None).isoformat(timespec="seconds")
    return text[: len("2026-01-01")] if number.is_integer() else f"{text}Z"


@lru_cache(maxsize=10_000)
def reader(form: str) -> Callable[[str], float | None]:
    """What reads a word written in this form, right to the last bit of a float64, and gives None
    for any other.
    """
    if "|" in form:
        return partial(_agreed, [reader(each) for each in form.split("|")])
    if form == BOOLEAN:
        return lambda word: _TRUTHS.get(word.lower())
    if form.startswith(ISO):
        return partial(_days, _ZONE_OF_PATTERN.sub("", form[len(ISO) + 1 :]))
    base, unit = without_unit(form), form[len(POINT) + 1 :]
    return lambda word: _amount(word, base, unit)


def _agreed(readers: Sequence[Callable[[str], float | None]], word: str) -> float | None:
    """The number, where the forms that read the word agree on it."""
    found = {number for read in readers if (number := read(word)) is not None}
    return found.pop() if len(found) == 1 else None


def _days(pattern: str, word: str) -> float | None:
    """Days since 1970 of a moment as the pattern or ISO 8601 has it, in UTC where it names no zone."""
    is_iso = _ISO.fullmatch(word)
    if len(word) > _LONGEST or not (pattern or is_iso):
        return None
    parts = is_iso or _MOMENT.fullmatch(word)
    local, zone = parts.group("local", "zone") if parts else (word, None)
    try:
        is_utc = zone in (None, "Z", "UTC", "GMT")
        offset = UTC if is_utc else datetime.fromisoformat(f"1970-01-01T00:00{zone}").tzinfo
        if is_iso:
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
    if len(word) > _LONGEST:
        return None
    if base == POINT and unit != "%" and is_number(word):
        return float(word) if math.isfinite(float(word)) else None
    if not (found := _AMOUNT.fullmatch(word)) or not _DIGITS[base].fullmatch(found["digits"]):
        return None
    named = [each for each in (found["unit"], found["behind"]) if each]
    places = found["sign"], found["inner"], found["after"], "-" if found["open"] else ""
    signs = [sign for sign in places if sign]
    if len(signs) > 1 or named not in ([unit], [] if unit != "%" else [unit]):
        return None
    digits = re.sub(rf"{_GAP}|{',' if base == POINT else '[.]'}", "", found["digits"]).replace(
        ",", "."
    )
    sign = "" if signs in ([], ["+"]) else "-"
    return float(sign + digits + ("e-2" if unit == "%" else ""))
