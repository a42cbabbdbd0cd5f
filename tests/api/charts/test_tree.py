"""A tree of classifiers as a picture."""

import xml.etree.ElementTree as ET

from app.acquisition.outline import Stop, listed
from app.api.charts.tree import tree_chart

SVG = "{http://www.w3.org/2000/svg}"


def words(chart):
    return [element.text for element in ET.fromstring(chart).iter(f"{SVG}text")]


def test_every_node_says_what_it_asks_for_and_what_has_been_paid():
    """Names are escaped; a node from which only one side goes on says so; ways carry the threshold."""
    stops = (Stop((0,), 1.0, 0.5, 1, 2), Stop((2, 1), 8.5, 0.0, -1, -1), Stop((), 1.0, 0.25, 3, -1),
             Stop((3,), 3.0, 0.0, -1, -1))  # fmt: skip
    found = words(tree_chart("rent:1", listed(stops, ["a<b>", "b", "c", "d"])))
    assert found[0] == "rent:1"
    for expected in (
        "a<b>",
        "c, b",
        "nothing new",
        "d",
        "cost 8.5, predict",
        "cost 1, predict or go on",
        "> 0.5",
        "≤ 0.5",
    ):
        assert expected in found
    assert "≤ 0.25" not in found


def test_nodes_stand_apart():
    """No box covers another, in a full tree of four levels; all are on the paper."""
    stops = tuple(Stop((0,), 1.0, 0.0, *((2 * k + 1, 2 * k + 2) if k < 7 else (-1, -1))) for k in range(15))
    chart = ET.fromstring(tree_chart("t", listed(stops, ["a"])))
    boxes = {(float(box.get("x")), float(box.get("y"))) for box in chart.iter(f"{SVG}rect") if box.get("x")}
    assert len(boxes) == 15
    _, _, width, height = map(float, chart.get("viewBox").split())
    assert all(0 <= x <= width - 190 and 0 <= y <= height - 44 for x, y in boxes)
    columns = {}
    for x, y in boxes:
        columns.setdefault(x, []).append(y)
    for ys in columns.values():
        assert all(b - a >= 44 for a, b in zip(sorted(ys), sorted(ys)[1:], strict=False))


def test_a_tree_that_asks_nothing_is_one_box():
    assert "cost 0, predict" in words(tree_chart("t", listed((Stop((), 0.0, 0.0, -1, -1),), ["a"])))
