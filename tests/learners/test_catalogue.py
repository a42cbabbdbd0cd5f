"""A request names a kind and its parameters; everything else about it is refused by name."""

import inspect
import math
from typing import Annotated, Literal

import numpy as np
import pytest

from app.errors import Invalid
from app.learners.base import Learner
from app.learners.catalogue import KINDS, resolve
from app.learners.parameters import Called, Range, parameters_of


def places(learner):
    with pytest.raises(Invalid) as error:
        resolve(learner)
    return {flaw.loc: flaw.msg for flaw in error.value.flaws}


def test_defaults_are_filled_in():
    """The parameters come back complete, numbers as floats."""
    kind, parameters = resolve({"kind": "logistic", "C": 2})
    assert kind is KINDS["logistic"]
    assert parameters == {"C": 2.0, "calibration": "auto"}
    assert isinstance(parameters["C"], float)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_defaults_are_the_estimators_own(kind):
    """The catalogue and the constructor agree, and the catalogue accepts its own defaults."""
    signature = inspect.signature(kind.estimator).parameters
    for parameter in kind.parameters:
        assert parameter.doc
        assert parameter.allowed()
        if parameter.type != "learner":
            assert parameter.check(parameter.default) == signature[parameter.attribute].default


@pytest.mark.parametrize("value", ["sqrt", "log2", 0.5, 1.0, 1, 7, None])
def test_an_amount_is_a_word_a_fraction_or_a_count(value):
    """An integer stays one: 1 is one feature, 1.0 is all of them."""
    checked = resolve({"kind": "random_forest", "max_features": value})[1]["max_features"]
    assert checked == value
    assert type(checked) is type(value)


@pytest.mark.parametrize("value", ["all", 0, 0.0, 1.5, -1, True, [3], float("nan")])
def test_other_amounts_are_refused(value):
    assert "a fraction above 0" in places({"kind": "random_forest", "max_features": value})["/max_features"]


@pytest.mark.parametrize("kind", [None, 3, "forest", ["logistic"]])
def test_an_unknown_kind_is_answered_with_the_known_ones(kind):
    """At `/kind`."""
    flaws = places({"kind": kind})
    assert "logistic" in flaws["/kind"]


def test_unknown_parameters_are_answered_with_the_known_ones():
    """All flaws at once, each at its name, escaped as a JSON pointer."""
    flaws = places({"kind": "logistic", "c": 1, "a/b~": 2, "C": -1})
    assert set(flaws) == {"/c", "/a~1b~0", "/C"}
    assert flaws["/c"] == "unknown logistic parameter 'c'; did you mean 'C'?"
    assert "allowed: 'C', 'calibration'" in flaws["/a~1b~0"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_requests_and_estimators_have_the_same_ranges(kind):
    """A value outside a parameter's range, or of another type, is refused by both, with the same message."""
    X, y = np.zeros((6, 2)), np.array([0, 1] * 3)
    for parameter in kind.parameters:
        if parameter.type in ("label", "learner"):
            continue
        wrong = ["no such word", [1], None if not parameter.optional else "no such word"]
        wrong += [] if parameter.low is None else [math.nextafter(parameter.low, -math.inf), parameter.low - 1]
        wrong += [] if parameter.high is None else [math.nextafter(parameter.high, math.inf), parameter.high * 10 + 1]
        wrong += [True] if parameter.type in ("integer", "number", "amount") else []
        wrong += [1.5, 10.0, math.nan, math.inf] if parameter.type == "integer" else []
        wrong += [math.nan, 10**400] if parameter.type == "number" else []
        for value in wrong:
            with pytest.raises(Invalid) as error:
                kind.estimator(**{parameter.attribute: value}).fit(X, np.eye(2)[y] if kind.labels == "several" else y)
            assert {f"/{parameter.name}": error.value.detail} == places({"kind": kind.name, parameter.name: value})


@pytest.mark.parametrize("outer", [{}, {"kind": "hierarchical_logistic", "first": {"kind": "benefit_logistic"}}])
def test_benefits_are_asked_for_where_they_are_needed(outer):
    """`benefit_logistic` does not train without a matrix, not inside another learner either."""
    kind, parameters = resolve({"kind": "benefit_logistic"} | outer)
    with pytest.raises(Invalid) as error:
        kind.build(parameters)
    assert error.value.flaws[0].loc == "/benefits"


def test_a_learner_inside_a_learner_is_resolved_and_built():
    """Its defaults are filled in, its flaws carry the outer name, and the estimator gets an estimator."""
    kind, parameters = resolve({"kind": "hierarchical_logistic", "second": {"kind": "logistic"}})
    assert parameters["first"] == resolve(parameters["first"])[1] | {"kind": "kernel_logistic"}
    assert parameters["second"] == {"kind": "logistic", "C": 1.0, "calibration": "auto"}
    assert kind.build(parameters, random_state=5).second.random_state == 5
    assert set(places({"kind": kind.name, "second": {"kind": "logistic", "C": 0}})) == {"/second/C"}
    assert set(places({"kind": kind.name, "second": {"kind": "cost_naive_bayes"}})) == {"/second/kind"}
    assert set(places({"kind": kind.name, "second": "logistic"})) == {"/second"}


def test_parameters_follow_from_annotations():
    """With the words of messages and of the API's documentation."""

    class Made(Learner):
        """A learner."""

        free: Annotated[float, "Any."] = 1.0
        above: Annotated[float | None, Range(0, above=True), Called("lambda"), "Above."] = None
        count: Annotated[int | Literal["auto"], Range(1, 9), "Count."] = "auto"
        ours: str = "not for requests"

    said = {one.name: (one.attribute, one.allowed(), one.optional, one.doc) for one in parameters_of(Made)}
    assert said == {
        "free": ("free", "a number", False, "Any."),
        "lambda": ("above", "a number above 0", True, "Above."),
        "count": ("count", "auto or an integer at least 1 and at most 9", False, "Count."),
    }


def test_a_label_is_the_class_itself_however_it_is_written():
    """1 and "1" are one class, also where an inner learner names it; what is no class is refused where it stands."""
    kind, parameters = resolve({"kind": "kernel_logistic", "majority": "1"})
    outer, inner = resolve({"kind": "hierarchical_logistic", "majority": 2, "first": {**parameters, "kind": kind.name}})

    assert kind.naming(parameters, [1, 2])["majority"] == 1
    assert kind.naming({**parameters, "majority": 1}, ["1", "2"])["majority"] == "1"
    named = outer.naming(inner, [1, 2])
    assert (named["majority"], named["first"]["majority"]) == (2, 1)
    assert named["second"] == inner["second"]
    with pytest.raises(Invalid) as error:
        outer.naming(inner, [2, 3])
    assert error.value.flaws[0].loc == "/first/majority"


@pytest.mark.parametrize("value", [True, False, 1.0, 0.5, [1], {}])
def test_a_label_is_a_string_or_an_integer(value):
    assert "a string or an integer" in places({"kind": "kernel_logistic", "majority": value})["/majority"]


@pytest.mark.parametrize(
    ("learner", "uses"),
    [
        ({"kind": "logistic"}, False),
        ({"kind": "benefit_logistic"}, True),
        ({"kind": "cost_tree"}, True),
        ({"kind": "hierarchical_logistic"}, False),
        ({"kind": "hierarchical_logistic", "first": {"kind": "benefit_logistic"}}, True),
    ],
)
def test_benefits_are_used_where_something_trains_with_them(learner, uses):
    kind, parameters = resolve(learner)

    assert kind.uses_benefits(parameters) is uses
