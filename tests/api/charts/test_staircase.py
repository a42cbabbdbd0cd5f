"""The order of a chain of forests as a picture."""

import xml.etree.ElementTree as ET

import pytest

from app.api.charts.staircase import chain_chart

SVG = "{http://www.w3.org/2000/svg}"
STEPS = [
    {"asks": "a<b>", "price": 1.0, "spent": 0.0, "error": 0.5, "stops": 0.0},
    {"asks": "c", "price": 7.5, "spent": 1.0, "error": 0.25, "stops": 0.75},
    {"asks": None, "price": None, "spent": 8.5, "error": 0.125, "stops": 0.25},
]


def words(chart):
    return [element.text for element in ET.fromstring(chart).iter(f"{SVG}text")]


def test_a_line_for_each_step():
    """Names are escaped; the first line knows nothing; error and share are of what is known there."""
    found = words(chain_chart("cov:1", STEPS))
    assert found[:5] == ["cov:1", "known", "paid so far", "error", "cases that stop here"]
    assert found[5:] == ["nothing", "0", "0.500", "0.0%", "a<b>", "1", "0.250", "75.0%", "c", "8.5", "0.125", "25.0%"]


@pytest.mark.parametrize("absent", ["error", "stops"])
def test_what_is_not_known_is_left_out(absent):
    """Without experience there are no errors, and without benefits nobody stops."""
    chart = chain_chart("cov:1", [step | {absent: None} for step in STEPS])
    assert len(words(chart)) == (5 if absent == "error" else 4) + 9
    lines = list(ET.fromstring(chart).iter(f"{SVG}line"))
    assert len(lines) == (0 if absent == "error" else 5)


@pytest.mark.parametrize("name", ["W" * 60, "\u4e00" * 60, "i" * 60, "cholesterol"])
def test_a_wide_name_ends_before_the_prices(name):
    """Also a short one of wide letters; what is cut is shown by a pointer over it."""
    chart = ET.fromstring(chain_chart("cov:1", [STEPS[0] | {"asks": name}, *STEPS[1:]]))
    prices = next(float(one.get("x")) for one in chart.iter(f"{SVG}text") if one.text == "paid so far")
    (column,) = [inner for inner in chart.iter(f"{SVG}svg") if any((one.text or "")[:9] == name[:9] for one in inner)]
    assert float(column.get("x")) + float(column.get("width")) < prices


def test_large_prices_are_written_with_commas():
    assert "1,230,000" in words(chain_chart("cov:1", [*STEPS[:2], STEPS[2] | {"spent": 1_234_567.0}]))
