"""A request names a kind and its parameters; everything else about it is refused by name."""

import math

import pytest

from payoff.errors import Invalid
from payoff.learners.catalogue import KINDS, resolve
from payoff.learners.parameters import request_of


def places(learner):
    with pytest.raises(Invalid) as error:
        resolve(learner)
    return {flaw.loc: flaw.msg for flaw in error.value.flaws}


def test_an_amount_is_a_word_a_fraction_or_a_count():
    """An integer stays one: 1 is one feature, 1.0 is all of them."""
    for value in ("sqrt", "log2", 0.5, 1.0, 1, 7, None):
        checked = resolve({"kind": "random_forest", "max_features": value}).parameters[
            "max_features"
        ]
        assert (checked, type(checked)) == (value, type(value))
    for value in ("all", 0, 0.0, 1.5, -1, True, [3], float("nan")):
        assert "/max_features" in places(
            {"kind": "random_forest", "max_features": value}
        )


def test_all_flaws_are_named_at_once():
    """Each at its name, escaped as a JSON pointer; for an unknown kind the known ones are named."""
    assert set(places({"kind": "logistic", "c": 1, "a/b~": 2, "C": -1})) == {
        "/c",
        "/a~1b~0",
        "/C",
    }
    for kind in (None, 3, "forest", ["logistic"]):
        assert "logistic" in places({"kind": kind})["/kind"]


def beyond(schema):
    """Values that a parameter with this schema does not take."""
    forms = schema.get("anyOf", [schema])
    types = {form.get("type") for form in forms}
    low = [
        form[key]
        for form in forms
        for key in ("minimum", "exclusiveMinimum")
        if key in form
    ]
    high = [form["maximum"] for form in forms if "maximum" in form]
    yield from ("no such word", [1], *([] if "null" in types else [None]))
    yield from (True, math.nan, math.inf) if types & {"integer", "number"} else ()
    yield from (1.5, 10.0) if "integer" in types and "number" not in types else ()
    yield from (10**400,) if "number" in types and "integer" not in types else ()
    yield from (
        value
        for limit in low
        for value in (math.nextafter(limit, -math.inf), limit - 1)
    )
    yield from (
        value
        for limit in high
        for value in (math.nextafter(limit, math.inf), limit * 10 + 1)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_values_outside_the_documented_ranges_are_refused(kind):
    """Those of the schema, or of another type, at the parameter."""
    for name, schema in (
        request_of(KINDS[kind]).model_json_schema()["properties"].items()
    ):
        if name not in (
            "kind",
            "majority",
            "first",
            "second",
            "max_features",
            "action",
            "propensity",
            "baseline",
            "unit_costs",
            "monotonic",
        ):  # these have tests of their own
            for value in beyond(schema):
                assert set(places({"kind": kind, name: value})) == {f"/{name}"}


@pytest.mark.parametrize(
    ("costs", "place"),
    [
        ({"over": -1, "under": 1}, "/unit_costs/over"),
        ({"over": 1, "under": 0}, "/unit_costs/under"),
        ({"over": 1}, "/unit_costs/under"),
        (3, "/unit_costs"),
    ],
)
def test_unit_costs_of_auto_are_two_positive_numbers(costs, place):
    assert [*places({"kind": "auto", "unit_costs": costs})] == [place]


@pytest.mark.parametrize(
    "outer",
    [{}, {"kind": "hierarchical_logistic", "first": {"kind": "benefit_logistic"}}],
)
def test_benefits_are_asked_for_where_they_are_needed(outer):
    """`benefit_logistic` does not train without a matrix, not inside another learner either."""
    with pytest.raises(Invalid) as error:
        resolve({"kind": "benefit_logistic"} | outer).build()
    assert error.value.flaws[0].loc == "/benefits"


def test_a_learner_inside_a_learner_is_resolved_and_built():
    """Its defaults are filled in, its flaws carry the outer name, and the estimator gets an estimator."""
    asked = resolve({"kind": "hierarchical_logistic", "second": {"kind": "logistic"}})
    assert (
        asked.parameters["first"] == resolve({"kind": "kernel_logistic"}).model_dump()
    )
    assert asked.parameters["second"] == {
        "kind": "logistic",
        "C": 1.0,
        "calibration": "auto",
        "monotonic": None,
    }
    assert asked.build(random_state=5).second.random_state == 5
    assert set(
        places({"kind": asked.kind, "second": {"kind": "logistic", "C": 0}})
    ) == {"/second/C"}
    assert set(
        places({"kind": asked.kind, "second": {"kind": "cost_naive_bayes"}})
    ) == {"/second/kind"}
    assert set(places({"kind": asked.kind, "second": "logistic"})) == {"/second"}


def test_a_label_is_the_class_itself_however_it_is_written():
    """1 and "1" are one class, also where an inner learner names it; what is no class is refused where it stands."""
    one = resolve({"kind": "kernel_logistic", "majority": "1"})
    outer = resolve(
        {"kind": "hierarchical_logistic", "majority": 2, "first": one.model_dump()}
    )

    assert one.naming([1, 2]).majority == 1
    assert (
        resolve(one.model_dump() | {"majority": 1}).naming(["1", "2"]).majority == "1"
    )
    named = outer.naming([1, 2])
    assert (named.majority, named.first.majority) == (2, 1)
    assert named.second == outer.second
    assert outer.naming([1, 2], by_position=True).first.majority == 0
    with pytest.raises(Invalid) as error:
        outer.naming([2, 3])
    assert error.value.flaws[0].loc == "/first/majority"
