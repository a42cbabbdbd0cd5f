"""Decisions by the expected rewards of a model, which need no matrix."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from app.answering.decide import Answer, check_finite
from app.outcomes.decision import EXPECTED_REWARD
from app.registry.loaded import Loaded
from app.requests.fields import CaseCell
from app.requests.limits import check_limits, decide_within_limits
from app.requests.rows import Rows
from app.requests.rules import Costs, RuleFields
from payoff.decisions.benefit import decide
from payoff.decisions.case_benefits import CaseBenefits, Term
from payoff.errors import Flaw, pointer, reject, unknown_at

_OF_CLASSES = (
    "benefits",
    "cost_matrix",
    "actions",
    "threshold",
    "guarantee",
    "priors",
    "explain",
)


def decide_by_rewards(model: Loaded, fields: RuleFields, rows: Rows) -> Answer:
    """The actions with the largest expected rewards less their costs, and the uplift of each over
    the baseline. O(n A) beside the model's own work.

    Raises Invalid with the place of a field that does not fit the model.
    """
    reject(_flaws(model, fields))
    expected = model.estimator.posterior(rows.X)
    check_finite(expected)
    net = expected - _costs(model, fields, rows)
    # Of one certain class, with a matrix for each row.
    certain = np.ones((len(net), 1))
    matrices = net[:, None, :]
    decision = decide(certain, matrices)
    choice = decision.choice
    figures: dict[str, Any] = {}
    if fields.limited:
        check_limits(fields, model.classes)
        choice, figures = decide_within_limits(
            fields, certain, matrices, decision, model.classes
        )
    uplift = None
    if fields.baseline is not None:
        uplift = net - net[:, [_names(model).index(fields.baseline)]]
    return Answer(
        rule=EXPECTED_REWARD,
        classes=model.classes,
        actions=model.classes,
        choice=choice,
        probabilities=expected,
        expected_benefits=net,
        warnings=[*model.card.warnings, *rows.warnings],
        figures=figures,
        uplift=uplift,
        chances=np.eye(len(model.classes))[choice],
    )


def _names(model: Loaded) -> list[str]:
    return [str(name) for name in model.classes]


def _flaws(model: Loaded, fields: RuleFields) -> Iterator[Flaw]:
    """What is about classes or numbers, and actions that the model does not choose."""
    names = _names(model)
    stated = fields.model_fields_set
    for name in (*_OF_CLASSES, *fields.of_numbers):
        if name in stated and getattr(fields, name):
            message = (
                f"{model.name!r} learned from rewards and needs no {name}; leave it out"
            )
            yield Flaw(pointer(name), message)
    if "rule" in stated and fields.rule != EXPECTED_REWARD:
        yield Flaw(
            "/rule",
            f"{model.name!r} learned from rewards: its rule is {EXPECTED_REWARD}",
        )
    if fields.baseline is not None and fields.baseline not in names:
        yield unknown_at("/baseline", "action", fields.baseline, names)
    if isinstance(fields.costs, Costs):
        yield Flaw("/costs", "costs are by action here, such as {'mail': 0.06}")
    elif fields.costs is not None:
        for name in fields.costs:
            if name not in names:
                yield unknown_at(pointer("costs", name), "action", name, names)
    if fields.explore is not None and fields.limited:
        message = "with limits a decision depends on the whole batch; leave out explore"
        yield Flaw("/explore", message)


def _costs(model: Loaded, fields: RuleFields, rows: Rows) -> np.ndarray:
    """The costs (n, A) of the actions, or (1, A) where no cost depends on the case."""
    base = np.zeros((1, len(model.classes)))
    terms = []
    costs = {} if isinstance(fields.costs, Costs) else fields.costs or {}
    for a, name in enumerate(_names(model)):
        cost = costs.get(name, 0.0)
        if isinstance(cost, CaseCell):
            place = pointer("costs", name)
            base[0, a] = cost.plus
            terms.append(Term(0, a, cost.column, cost.times, place))
        else:
            base[0, a] = cost
    if not terms:
        return base
    by_case = CaseBenefits(base, terms)
    values = by_case.values(model.schema, rows.X, rows.columns)
    return by_case.at(values, partial(rows.place, model.schema))[:, 0]
