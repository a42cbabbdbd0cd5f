"""Functions of the console's modules, called in the browser: what they say about numbers, matrices and scales."""

from __future__ import annotations

import json
import math
import re

import pytest

from app.api.drawing import Axis
from app.tables.text import MISSING
from tests.console.tab import FOLDER, alike

MINUS = "\N{MINUS SIGN}"
WORDS = {
    "benefits": {"b": {"__proto__": 1, "10": 2}, "a": {"10": 4, "__proto__": 3}},
    "actions": ["__proto__", "10"],
}
CLOSE_TO_THE_ENDS = {
    "curve": [{"threshold": t, "benefit": b} for t, b in ((0, -2), (0.5, -0.5), (1, -0.5))],
    "threshold": -5e-324, "benefit": 0.267, "posterior_threshold": 0.0002,
    "rules": [{"rule": "threshold_posterior", "benefit": 0.1}],
}  # fmt: skip
CELLS = [
    {"column": name, "times": times, "plus": plus}
    for name in ("amount", "of loan", " blank ", "7", 'say "x"', "a-b", "1e5", "größe")
    for times, plus in ((1, 0), (-1, 2), (-0.75, -300), (1e-7, 1e21))
]
CALLS = {
    "the curve is in order where scores are close to the ends": (
        "compare.js", "(report) => its.steps(report)", CLOSE_TO_THE_ENDS,
        [[0, 0.267], [0, -2], [0.0002, 0.1], [0.5, -0.5], [1, -0.5]],
    ),
    "no rounded benefit is shown as a fact": (
        "matrix.js", '(all) => all.map((one) => its.inWords({benefits: [[one]], actions: ["act"]}, ["ill"]))',
        [12344, 12341, 0.123456789, -1234567.25],
        [f"ill: act {effect}"
         for effect in ("brings 12,344", "brings 12,341", "brings 0.123456789", "costs 1,234,567.25")],
    ),
    "a cell that names a column is read as it is written": (
        "number.js",
        "(cells) => cells.map((cell) => its.cellOf(its.textOf(cell)))",
        CELLS,
        CELLS,
    ),
    "dates are written as their column has them": (
        "forms.js",
        "(pairs) => pairs.map(([form, number]) => `${its.looks(form)}: ${its.inForm(number, form)}`)",
        [
            ["date:%d/%m/%Y|date:%m/%d/%Y", 19723],
            ["date:%m-%d-%Y %I:%M %p", 19723.6],
            ["date", -1],
            ["number:1.234,5 €", 19723],
        ],
        [
            "day/month/year: 01/01/2024",
            "month-day-year hour:minute AM/PM: 01-01-2024 02:24 PM",
            "year-month-day: 1969-12-31",
            "1.234,5 €: 19,723",
        ],
    ),
    "a matrix in words is read by names": (
        "matrix.js", "(text) => its.fromWords(JSON.parse(text), ['a', 'b'])", json.dumps(WORDS),
        {"benefits": [[3, 4], [1, 2]], "actions": ["__proto__", "10"]},
    ),
    "its words stay": (
        "matrix.js", "(text) => its.worded(its.fromWords(JSON.parse(text), ['a', 'b']), ['a', 'b'])",
        json.dumps(WORDS), WORDS,
    ),
    "benefit is added up from 0 on the day before the first": (
        "pictures.js",
        "(series) => { const [line] = its.earnings(series).lines; return [line.points, line.band]; }",
        {"day": ["1970-01-02", "1970-01-04"], "promised": [1, 2], "realised": [3, 5], "low": [2, 3], "high": [4, 7]},
        [[[0, 0], [86_400_000, 3], [259_200_000, 5]], [[0, 0], [2, 4], [3, 7]]],
    ),
    "a matrix of other classes is none": (
        "matrix.js", "(text) => its.fromWords(JSON.parse(text), ['a', 'c'])", json.dumps(WORDS), None,
    ),
}  # fmt: skip


def call(page, module, function, *given):
    """What a function returns that sees the module as `its`."""
    found = f"import('/console/{module}').then((its) => JSON.stringify(({function})(...given)))"
    return json.loads(page.evaluate(f"(given) => {found}", list(given)))


def test_what_functions_return(tab):
    page = tab.open("models")
    for about, (module, function, given, expected) in CALLS.items():
        assert call(page, module, function, given) == expected, about


INTERVALS = ([0.4, 0.9], [10036.9, 10037.9], [-3e-7, 2e-7], [-4e8, 9e8], [99999, 1234567], [5, 5], [-0.0004, 0.3],
             [1e-14, 3e-14], [-2e12, 5e15], [-1e308, 1e308], [0, 0], [1e5, 1e5 + 1e-9])  # fmt: skip


def test_no_figure_is_outside_its_interval(tab):
    page = tab.open("models")
    for low, high in INTERVALS:
        inside = [low, *(low / 7 * (7 - i) + high / 7 * i for i in range(1, 7)), high]
        found = call(
            page,
            "dom.js",
            "(ends, values) => values.map(its.figures([ends]))",
            [low, high],
            inside,
        )
        numbers = [float(text.replace(",", "").replace(MINUS, "-")) for text in found]
        assert all(numbers[0] <= number <= numbers[-1] for number in numbers), found
        rounding = 1e-3 * abs(high)  # of numbers that are one but for rounding
        step = high / 100 - low / 100 if high - low > 1e-12 * abs(high) else rounding
        assert numbers == pytest.approx(inside, abs=step), found
        if math.isfinite(high - low) and 1e-6 < high - low < 1e9:
            assert found == [alike(value, [low, high]) for value in inside]


def test_the_scales_are_those_of_the_service(tab):
    page = tab.open("models")
    for ends in ([0, 1], [-3.2, 17.5], [1e-7, 3e-7], [-2e6, 5e6], [5, 5], [99.98, 100.02], [-4e-3, 2e9],
                 [0, 0], [1e-12, 1e-12], [-3e15, -3e15], [1e8, 1e8 + 1], [-5e8, 4e8]):  # fmt: skip
        expected = Axis.around(ends, 10, 90).ticks(5)
        found = call(
            page,
            "chart.js",
            "(low, high) => its.Axis.around([low, high], 10, 90).ticks(5)",
            *ends,
        )

        assert [label for _, label in found] == [label for _, label in expected]
        assert [value for value, _ in found] == pytest.approx(
            [value for value, _ in expected]
        )


def test_missing_values_are_those_of_the_service():
    [listed] = re.findall(
        r"MISSING = new Set\((\[.*?\])\)", (FOLDER / "data.js").read_text()
    )
    assert tuple(json.loads(listed)) == MISSING
