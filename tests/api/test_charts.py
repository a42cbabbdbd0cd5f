"""Charts: well-formed, escaped, and inside their paper whatever the numbers."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.api.charts import (
    benefit_chart,
    comparison_chart,
    retrieval_chart,
)
from app.api.drawing import escaped

MINUS = "\N{MINUS SIGN}"
NS = "{http://www.w3.org/2000/svg}"
values = st.floats(-1e150, 1e150) | st.floats(0, 1e-300)


@pytest.mark.parametrize(
    "bad", ["\x00", "\x08", "\x0b", "\x0c", "\x1f", "\ud800", "\ufffe", "\uffff"]
)
def test_what_xml_cannot_hold_is_replaced_or_escaped(bad):
    """Names may hold characters that no XML may, not even escaped: the picture stays one."""
    name = f'<&">a{bad}b' + "c" * 100
    chart = comparison_chart(result(learner=name))

    assert ET.fromstring(chart).tag == f"{NS}svg"
    assert bad not in chart
    assert '<&"' not in chart
    assert "a\ufffdb" in chart
    assert escaped("tab\t, line\n, and é stay") == "tab\t, line\n, and é stay"


def standing(rule, **more):
    return {
        "rule": rule,
        "benefit": 1.0,
        "mu": 0.5,
        "interval": (0.5, 1.5),
        "behind": 0.0,
        **more,
    }


def result(learner):
    table = [
        standing(rule, learner=learner)
        for rule in ("expected_benefit", "most_probable")
    ]
    best = {
        "learner": learner,
        "rule": "expected_benefit",
        "difference": 0.5,
        "significant": True,
    }
    best["runner_up"] = {"learner": learner, "rule": "most_probable"}
    return {
        "rows": 10,
        "upper_bound": 2.0,
        "table": table,
        "best": best,
        "same_for_all": {"action": 0, "benefit": 0.1},
    }


def report(points, *, threshold, posterior, bound):
    best = {
        "rule": "expected_benefit",
        "runner_up": None,
        "difference": None,
        "significant": False,
    }
    return {
        "model": {"name": "m", "version": 1},
        "rows": 10,
        "evaluation": "hold-out",
        "benefit": 1.0,
        "upper_bound": bound,
        "threshold": threshold,
        "posterior_threshold": posterior,
        "curve": [{"threshold": t, "benefit": value} for t, value in points],
        "rules": [standing("expected_benefit"), standing("threshold_posterior")],
        "best": best,
    }


def vertices(path):
    """The corners (n, 2) of a path of moves, lines, and steps across and up."""
    found = []
    for command, numbers in re.findall(r"([MLHV])([^MLHV]+)", path):
        x, y = found[-1] if found else (0.0, 0.0)
        given = [float(number) for number in numbers.split()]
        found.append(
            {"H": (given[0], y), "V": (x, given[0])}.get(command) or tuple(given)
        )
    return found


@settings(max_examples=60)
@example([0.0, 5e-324], 0.0, None, None)
@given(
    st.lists(values, min_size=2, max_size=8),
    values,
    st.none() | st.floats(-1e-9, 1 + 1e-9),
    st.none() | values,
)
def test_curves_are_steps_and_stay_on_the_paper(benefits, bound, threshold, posterior):
    """No line leads askew from one threshold to the next."""
    points = [(i / (len(benefits) - 1), value) for i, value in enumerate(benefits)]
    given_report = report(points, threshold=threshold, posterior=posterior, bound=bound)
    chart = ET.fromstring(benefit_chart(given_report, corrected=False))
    corners = vertices(next(chart.iter(f"{NS}path")).get("d"))

    assert all(a == c or b == d for (a, b), (c, d) in pairwise(corners))
    assert all(a <= c for (a, _), (c, _) in pairwise(corners))
    for x, y in corners:
        assert 0 <= x <= float(chart.get("width"))
        assert 0 <= y <= 370


AXES = {
    "benefit": (
        lambda: benefit_chart(report([(0, 0), (1, 1)], threshold=0.3, posterior=0.4, bound=2), corrected=False),
        {"threshold t on the score", "mean benefit per row", "rule", "benefit per row", "1 (0.5 … 1.5), 50 %"}
        | {"best cut = 0.3, best on these rows: 1", "posterior threshold 0.4: 1", "upper bound 2", "expected benefit"},
    ),
    "comparison": (
        lambda: comparison_chart(result("l")),
        {"learner and rule", "benefit per row", "l", "most probable", "1 (0.5 … 1.5), 50 %", "upper bound 2"},
    ),
    "retrieval": (
        lambda: retrieval_chart("f_beta", [([0.5, 0.25, 0.75], 1), ([0.125], 0)]),
        {"items retrieved", "expected loss", "retrieved: 1 of 2 items, 0.25", "retrieved: 0 of 0 items, 0.125"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", AXES)
def test_axes_have_titles_and_all_figures_are_text_for_screen_readers(kind):
    draw, texts = AXES[kind]
    chart = ET.fromstring(draw())
    assert texts <= {element.text for element in chart.iter(f"{NS}text")}
    assert "role" not in chart.attrib  # as an image its texts would be hidden from them
