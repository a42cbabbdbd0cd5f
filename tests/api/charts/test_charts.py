"""Charts: well-formed, escaped, and inside their paper whatever the numbers."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.charts.axis import Axis, number, short
from app.api.charts.reports import benefit_chart, comparison_chart
from app.api.charts.svg import escaped, fitted, shortened, tag, text

MINUS = "\N{MINUS SIGN}"
NS = "{http://www.w3.org/2000/svg}"
values = st.floats(-1e150, 1e150)
spans = st.tuples(values, values).map(sorted)


@given(spans)
def test_ticks_are_few_rising_inside_and_told_apart(span):
    axis = Axis.around(span, 0, 100)
    ticks = axis.ticks()
    places = [axis.at(value) for value, _ in ticks]

    assert 1 <= len(ticks) <= 8
    assert places == sorted(set(places))
    assert places[0] >= 0
    assert places[-1] <= 100


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e4))
def test_labels_say_the_ticks(low, width):
    """Read back, a label is its tick, and no two are alike."""
    ticks = Axis(low, low + width, 0, 100).ticks()
    read = [float(label.replace(MINUS, "-").replace(",", "")) for _, label in ticks]

    assert read == pytest.approx([value for value, _ in ticks], abs=width * 1e-6)
    assert len({label for _, label in ticks}) == len(ticks)


def test_round_numbers():
    assert [label for _, label in Axis(0, 1, 0, 1).ticks(5)] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert [label for _, label in Axis(-7, 12, 0, 1).ticks(4)] == [f"{MINUS}5", "0", "5", "10"]
    assert number(-0.001, 2) == "0.00"
    assert [label for _, label in Axis(0, 2e6, 0, 1).ticks(4)] == [
        "0",
        "500,000",
        "1,000,000",
        "1,500,000",
        "2,000,000",
    ]
    for value, label in (
        (-12345.678, f"{MINUS}12,300"), (1_234_567, "1,230,000"), (999.6, "1,000"), (123.4, "123"),
        (0.00012345, "0.000123"), (999_999_999, "1e+09"), (1.5e300, "1.5e+300"), (0, "0"),
    ):  # fmt: skip
        assert short(value) == label


def test_a_single_value_still_makes_a_range():
    axis = Axis.around([3.0], 0, 10)

    assert axis.low < 3 < axis.high
    assert axis.at(3.0) == pytest.approx(5)


def test_what_comes_from_outside_is_escaped():
    assert text(1, 2, '<&">') == '<text x="1" y="2" class="" text-anchor="start">&lt;&amp;&quot;&gt;</text>'
    assert tag("a", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;"/>'


@pytest.mark.parametrize("bad", ["\x00", "\x08", "\x0b", "\x0c", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_what_xml_cannot_hold_is_replaced(bad):
    """Names may hold characters that no XML may, not even escaped: the picture stays one."""
    name = f"a{bad}b" + "c" * 100
    chart = comparison_chart(result(learner=name))

    assert ET.fromstring(chart).tag == f"{NS}svg"
    assert bad not in chart
    assert "a\ufffdb" in chart
    assert escaped("tab\t, line\n, and é stay") == "tab\t, line\n, and é stay"


def test_wide_words_end_within_their_width():
    """Sixty W take two and a half times the pixels of sixty letters of a text."""
    inner = ET.fromstring(fitted(24, 60, 250, "W" * 60, 38, cls="soft"))
    (shown,) = inner
    assert (inner.tag, inner.get("x"), inner.get("width")) == ("svg", "24", "250")
    assert float(inner.get("y")) + float(shown.get("y")) == 60
    assert (shown.text, shown[0].text) == ("W" * 37 + "…", "W" * 60)
    assert not list(ET.fromstring(fitted(24, 60, 250, "age", 38))[0])


def test_long_words_are_shortened():
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"


def standing(rule, value, low, high):
    return {"rule": rule, "benefit": value, "mu": value, "interval": (low, high), "behind": 0.0}


def lead(**changes):
    return {"rule": "expected_benefit", "runner_up": "most_probable", "difference": 0.5, "significant": True} | changes


def result(learner="l", rows=((1.0, 0.5, 1.5), (0.5, 0.0, 1.0))):
    table = [
        {"learner": learner} | standing(rule, *row)
        for rule, row in zip(("expected_benefit", "most_probable"), rows, strict=True)
    ]
    second = {"learner": learner, "rule": "most_probable"}
    best = lead(learner=learner, runner_up=second)
    return {"rows": 10, "upper_bound": 2.0, "table": table, "best": best, "same_for_all": {"action": 0, "benefit": 0.1}}


def report(points, *, threshold=0.3, posterior=0.4, bound=2.0):
    curve = [{"threshold": t, "benefit": value} for t, value in points]
    rules = [standing(rule, 1.0, 0.5, 1.5) for rule in ("expected_benefit", "threshold_posterior")]
    return {
        "model": {"name": "m", "version": 1},
        "rows": 10,
        "evaluation": "hold-out",
        "benefit": 1.0,
        "upper_bound": bound,
        "threshold": threshold,
        "posterior_threshold": posterior,
        "curve": curve,
        "rules": rules,
        "best": lead(runner_up=None, difference=None, significant=False),
    }


def words(chart):
    return [element.text for element in ET.fromstring(chart).iter(f"{NS}text")]


def test_hostile_names_stay_words():
    """A name full of markup is shown, not obeyed."""
    name = "<script>alert('&')</script>"
    chart = comparison_chart(result(learner=name))

    assert name in words(chart)
    assert "<script" not in chart


@settings(max_examples=60)
@given(st.lists(st.tuples(values, values, values).map(sorted), min_size=2, max_size=2), values)
def test_dots_stay_on_the_paper(rows, bound):
    """Whatever was earned: well-formed, finite, and inside."""
    ordered = [(middle, low, high) for low, middle, high in rows]
    chart = ET.fromstring(comparison_chart(result(rows=ordered) | {"upper_bound": bound}))
    width = float(chart.get("width"))

    for circle in chart.iter(f"{NS}circle"):
        assert 0 <= float(circle.get("cx")) <= width
        assert 0 <= float(circle.get("cy")) <= float(chart.get("height"))
    for line in chart.iter(f"{NS}line"):
        assert all(math.isfinite(float(line.get(end))) for end in ("x1", "x2", "y1", "y2"))


@settings(max_examples=60)
@given(st.lists(values, min_size=2, max_size=8), values, st.none() | st.floats(-1e-9, 1 + 1e-9), st.none() | values)
def test_curves_stay_on_the_paper(benefits, bound, threshold, posterior):
    points = [(i / (len(benefits) - 1), value) for i, value in enumerate(benefits)]
    given_report = report(points, threshold=threshold, posterior=posterior, bound=bound)
    chart = ET.fromstring(benefit_chart(given_report, corrected=False))
    path = next(chart.iter(f"{NS}polyline")).get("points").split()

    assert len(path) == len(benefits)
    for pair in path:
        x, y = map(float, pair.split(","))
        assert 0 <= x <= float(chart.get("width"))
        assert 0 <= y <= 352


def test_the_curve_falls_where_benefits_fall():
    chart = ET.fromstring(benefit_chart(report([(0.0, 2.0), (1.0, -1.0)]), corrected=False))
    first, last = (tuple(map(float, p.split(","))) for p in next(chart.iter(f"{NS}polyline")).get("points").split())

    assert first[0] < last[0]
    assert first[1] < last[1]  # downwards on paper


def test_what_the_marks_say():
    """Both thresholds with what they earn, and the bound, in words."""
    told = words(benefit_chart(report([(0.0, 0.0), (1.0, 1.0)]), corrected=False))

    assert "t* = 0.3, best on these rows: 1" in told
    assert "posterior threshold 0.4: 1" in told
    assert "upper bound 2" in told
    assert "All earn the same on every row." in told
    elsewhere = words(benefit_chart(report([(0.0, 0.0), (1.0, 1.0)], posterior=-3.0), corrected=False))
    assert f"posterior threshold {MINUS}3 (off this axis): 1" in elsewhere
    constant = words(benefit_chart(report([(0.0, 0.0), (1.0, 1.0)], threshold=None), corrected=False))
    assert "one action is best throughout: 1" in constant


def test_the_verdict_names_noise():
    assert any("0.5 is more than noise" in said for said in words(comparison_chart(result())) if said)
    doubtful = result()
    doubtful["best"]["significant"] = False
    assert any("0.5 may be noise" in said for said in words(comparison_chart(doubtful)) if said)
