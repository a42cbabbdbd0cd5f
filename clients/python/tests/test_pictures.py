"""Pictures of reports: what they contain, that they are XML, and that any theme shows them."""

import re
import xml.etree.ElementTree as ET

import pytest
from payoff_client import pictures
from payoff_client.documents import Report
from payoff_client.pictures import Line, plot

BAD = "</text><script>alert(1)</script>"
SERIES = {
    "day": ["2026-03-30", "2026-04-02"],
    "promised": [10.0, 25.0],
    "realised": [12.0, 21.5],
    "low": [2.0, 5.5],
    "high": [22.0, 37.5],
}
OUTCOMES = {
    "difference": {"mean": -0.5, "low": -2.0, "high": 1.0, "tolerance": 0.4},
    "series": SERIES,
}
BENEFIT = {
    "curve": [{"threshold": t, "benefit": b} for t, b in ((0, -1), (0.5, 2), (1, 0))],
    "upper_bound": 3.0,
    "rules": [
        {"rule": "expected_benefit", "benefit": 2.0},
        {"rule": "same_for_all", "benefit": 0.0},
    ],
    "calibration_curve": [
        {"rows": 40, "stated": 0.2, "occurred": 0.15, "interval": [0.07, 0.29]},
        {"rows": 40, "stated": 0.7, "occurred": 0.8, "interval": [0.65, 0.9]},
    ],
}  # fmt: skip


def words_of(svg):
    texts = ET.fromstring(f"<div>{svg}</div>").iter("{http://www.w3.org/2000/svg}text")
    return [text.text for text in texts]


def test_a_plot_has_its_words_and_numbers_and_escapes_them():
    line = Line(BAD, [(0, 1), (10, 3)], band=[(0, 2), (2, 4)])
    words = words_of(plot(BAD, ("x", BAD), [line]))
    assert words.count(BAD) == 3
    assert {"x", "0", "2", "4", "10"} <= {*words}
    assert "script>" not in plot(BAD, (BAD, BAD), [line]).replace("&lt;script&gt;", "")


@pytest.mark.parametrize("value", [0.0, 5.0, -3e9, 1e-12])
def test_a_single_value_is_drawn(value):
    for is_dots in (False, True):
        svg = plot("one", ("x", "y"), [Line("a", [(value, value)], dots=is_dots)])
        assert "nan" not in svg
        assert len(words_of(svg)) > 6


def test_ticks_of_dates_are_days():
    days = [738_000, 738_001, 738_002]
    lines = [Line("a", [(day, 1.0) for day in days])]
    words = words_of(plot("days", ("day", "y"), lines, dates=True))
    assert [text for text in words if re.fullmatch(r"\d\d \w{3}", text)] == [
        "29 Jul",
        "30 Jul",
        "31 Jul",
    ]


def test_a_report_on_outcomes_is_drawn_above_its_tables():
    shown = Report(OUTCOMES)._repr_html_()
    assert shown.count("<svg") == 2
    assert shown.index("<svg") < shown.index("<table")
    words = words_of(shown)
    for text in ("Promised and realised", "The difference", "promised", "30 Mar"):
        assert text in words
    without = {"low": None, "high": None}
    report = {
        "difference": OUTCOMES["difference"] | without,
        "series": SERIES | {name: [None, None] for name in without},
    }
    assert Report(report)._repr_html_().count("<svg") == 2
    assert "<svg" not in Report(OUTCOMES | {"series": None})._repr_html_()


def test_a_report_on_a_matrix_has_a_decision_curve_and_a_calibration_curve():
    """The chart of the service stays for viewers that take SVG alone."""
    report = Report(BENEFIT)
    report.svg = "<svg/>"
    words = words_of(report._repr_html_())
    assert {"Decision curve", "Calibration curve", "one action for all"} <= {*words}
    steps = re.findall(r'd="(M[^"]*)"', report._repr_html_())
    assert any(
        path.count("L") == 4 for path in steps
    )  # each value holds up to the next
    comparison = Report({"table": [{"benefit": 1}]})
    comparison.svg = "<svg/>"
    assert comparison._repr_html_() is None


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_lines_stand_out_on_white_and_on_black():
    svg = plot("a", ("x", "y"), [Line("a", [(0, 1)]), Line("b", [(0, 1)], "second")])
    colours = re.findall(r'color="(#\w{6})"', svg)
    assert len(colours) == 2
    for colour in colours:
        assert 1.05 / (luminance(colour) + 0.05) >= 3
        assert (luminance(colour) + 0.05) / 0.05 >= 3
    assert set(re.findall(r' (?:fill|stroke)="(\w+)"', svg)) == {"none", "currentColor"}


def test_what_is_drawn_is_in_no_table():
    shown = Report(BENEFIT | OUTCOMES)._repr_html_()
    for name in pictures.PICTURES:
        assert f"<caption>{name}" not in shown
