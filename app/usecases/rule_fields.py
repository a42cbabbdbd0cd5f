"""Which fields of a question go with its rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.errors import Flaw, Invalid, pointer, reject
from app.text import some_of

if TYPE_CHECKING:
    from app.usecases.predict import Question

_SHOWN = 5  # names in a message
_DECIDES_ACTIONS = ("expected_benefit", "threshold")  # the other rules decide among the classes


def check_fields(question: Question, rule: str) -> None:
    """Refuse what the rule would pass over, and miss what it needs: silence would be a guess."""
    flaws: list[Flaw] = []
    if rule == "expected_benefit" and not question.stated:
        flaws.append(Flaw("/benefits", 'rule expected_benefit needs benefits; or ask for "rule": "most_probable"'))
    if question.threshold is not None and rule != "threshold":
        flaws.append(Flaw("/threshold", f'a threshold belongs to "rule": "threshold", not to {rule}'))
    needs_costs = rule in ("beta_delta", "hierarchical")
    if needs_costs and question.costs is None:
        flaws.append(Flaw("/costs", f"rule {rule} needs costs"))
    if question.costs is not None and not needs_costs:
        flaws.append(Flaw("/costs", f"costs belong to the rules beta_delta and hierarchical, not to {rule}"))
    if question.explain and rule != "expected_benefit":
        flaws.append(Flaw("/explain", f"explanations are for the rule expected_benefit, not for {rule}"))
    if question.explain and question.constraints is not None:
        flaws.append(Flaw("/explain", "with limits a decision depends on the whole batch; leave out explain"))
    if question.actions is not None and rule not in _DECIDES_ACTIONS:
        flaws.append(Flaw("/actions", f"rule {rule} decides among the classes; leave out actions"))
    if question.constraints is not None and rule != "expected_benefit":
        place = pointer(question.constraints.fields[0])
        flaws.append(Flaw(place, f"limits and resources belong to the rule expected_benefit, not to {rule}"))
    reject([*flaws, *_flaws_of_exploring(question, rule)])


def check_actions(question: Question, rule: str, actions: Sequence[object] | None) -> None:
    """Invalid where the matrix names `actions` of its own and the rule decides among the classes; None are these."""
    if actions is not None and rule not in _DECIDES_ACTIONS:
        named = some_of([str(name) for name in actions], _SHOWN)
        what = f"rule {rule} decides among the classes, and the matrix has the actions {named}"
        raise Invalid.at(question.place, f"{what}; leave out the matrix, or decide by the rule expected_benefit")


def _flaws_of_exploring(question: Question, rule: str) -> Iterator[Flaw]:
    if question.explore is None:
        return
    if rule != "expected_benefit":
        yield Flaw("/explore", f"exploration goes with the rule expected_benefit, not with {rule}")
    if question.constraints is not None:
        yield Flaw("/explore", "with limits a decision depends on the whole batch; leave out explore")
    if question.explain:
        yield Flaw("/explore", "actions that are drawn at random have no explanation; leave out explain or explore")
