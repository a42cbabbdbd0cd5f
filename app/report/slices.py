"""Recorded cases that can be computed together, with what is computed of each case as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from app.outcomes.decision import OF_QUANTITY, UNIT_COSTS, UNKNOWN, Cases, Label, Terms
from payoff.evidence.intervals import risk

AT_ONCE = 1 << 17  # rows
CELLS = 1 << 21  # of matrices, 16 MB
ROW_CELLS = 1 << 23  # of the matrices of rows, 64 MB


@dataclass(frozen=True)
class Stack:
    """The terms of many cases of the same version, classes and actions: `matrices` (T, K, A), 0
    where none is `stated`.

    Of each term: `best` (T, K), what the best action earns in each class; `plain` (T,), whether the
    probabilities are the model's own, with all features and without stated priors; `explore` (T,),
    the share of decisions that were drawn, NaN for none.
    """

    terms: Sequence[Terms]
    version: int
    classes: tuple[Label, ...]
    actions: tuple[Label, ...]
    stated: bool
    matrices: np.ndarray
    best: np.ndarray
    plain: np.ndarray
    explore: np.ndarray

    @classmethod
    def of(cls, terms: Sequence[Terms]) -> Stack:
        one, stated = terms[0], terms[0].benefits is not None
        shape = len(terms), len(one.classes), len(one.actions)
        matrices = (
            np.array([term.benefits for term in terms], dtype=np.float64)
            if stated
            else np.zeros(shape)
        )
        plain = np.array([term.verb == "predict" and term.priors is None for term in terms])
        explore = np.array(
            [(term.figures or {}).get("explore", np.nan) for term in terms], dtype=np.float64
        )
        return cls(
            terms,
            one.version,
            one.classes,
            one.actions,
            stated,
            matrices,
            matrices.max(axis=2),
            plain,
            explore,
        )


class Money(NamedTuple):
    """Of the m cases with known truth and a matrix, (..., m) each: what they were promised, and
    what they earned.

    `decided` is what the decisions earn by their matrix, and `promised` what was expected of them,
    with its `risks` (2, m). `overridden`: another action was really taken; `taken_earned`,
    `taken_promised` and `taken_risks` are the same of the actions really taken. `received` is the
    benefit that was told, else `taken_earned`.
    """

    decided: np.ndarray
    promised: np.ndarray
    risks: np.ndarray
    overridden: np.ndarray
    taken_earned: np.ndarray
    taken_promised: np.ndarray
    taken_risks: np.ndarray
    received: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Slice(Cases):
    """Some cases of one day whose terms are those of a stack.

    `known` (n,): the truth is known; `taken` (n,): the action really taken, where nobody told
    otherwise the one decided; `has_matrix` (n,); `priced` (m,) are the rows with known truth and a
    matrix.
    """

    stack: Stack
    mature: bool  # else no truth is known
    known: np.ndarray
    taken: np.ndarray
    has_matrix: np.ndarray
    priced: np.ndarray

    def payoffs(self, rows: Any, way: np.ndarray) -> np.ndarray:
        """(rows, K): what the actions (n,) of a way earn in each class."""
        return np.asarray(self.stack.matrices[self.term[rows], :, way[rows]])

    @cached_property
    def money(self) -> Money:
        """See `Money`."""
        rows, told = self.priced, self.benefit[self.priced]
        payoffs, truth = self.payoffs(rows, self.choice), self.truth[rows]
        decided, promised = payoffs[np.arange(len(rows)), truth], self.expected[rows]
        risks = risk(self.probabilities[rows], payoffs)
        other = (self.taken != self.choice)[rows]
        earned, taken_promised, taken_risks = decided, promised, risks
        if other.any():
            P, payoffs = self.probabilities[rows[other]], self.payoffs(rows[other], self.taken)
            earned, taken_promised, taken_risks = decided.copy(), promised.copy(), risks.copy()
            earned[other] = payoffs[np.arange(len(P)), truth[other]]
            taken_promised[other], taken_risks[:, other] = (
                (P * payoffs).sum(axis=1),
                risk(P, payoffs),
            )
        return Money(
            decided=decided,
            promised=promised,
            risks=risks,
            overridden=other,
            taken_earned=earned,
            taken_promised=taken_promised,
            taken_risks=taken_risks,
            received=np.where(np.isnan(told), earned, told),
        )


def slices(
    cases: Cases, immature: int | None = None, alike: Callable[[Terms], Hashable] = lambda _: None
) -> Iterator[Slice]:
    """The cases in parts of bounded size, without truths from the day `immature` on; the terms of a
    part have the same version, classes and actions, all of them a matrix or none, and the same
    value of `alike`.
    """
    mature = immature is None or cases.day < immature
    if not mature:
        nobody, untold = np.full(len(cases), UNKNOWN, dtype=np.int32), np.full(len(cases), np.nan)
        cases = replace(cases, truth=nobody, action=nobody, benefit=untold, number=untold)
    kinds = defaultdict[Hashable, list[int]](list)
    for i, one in enumerate(cases.terms):
        kind = one.version, one.classes, one.actions, one.benefits is None, alike(one)
        kinds[kind].append(i)
    few: list[list[int]] = []  # terms whose matrices are held together
    for same in kinds.values():
        one = cases.terms[same[0]]
        size = max(CELLS // (len(one.classes) * len(one.actions)), 1)
        few += [same[begin : begin + size] for begin in range(0, len(same), size)]
    part_of, place = np.empty((2, len(cases.terms)), dtype=np.intp)
    for number, part in enumerate(few):
        part_of[part], place[part] = number, np.arange(len(part))
    order = (
        np.argsort(part_of[cases.term], kind="stable") if len(few) > 1 else np.arange(len(cases))
    )
    ends = np.cumsum(np.bincount(part_of[cases.term], minlength=len(few)))
    for part, rows in zip(few, np.split(order, ends[:-1]) if few else [], strict=True):
        stack = Stack.of([cases.terms[i] for i in part])
        width = OF_QUANTITY if stack.terms[0].rule == UNIT_COSTS else len(stack.classes)
        size = min(AT_ONCE, max(ROW_CELLS // (len(stack.classes) * len(stack.actions)), 1))
        for begin in range(0, len(rows), size):
            some: Any = rows[begin : begin + size]
            if len(some) == len(cases):
                some = slice(None)  # a view of all
            columns = {own.name: getattr(cases, own.name) for own in fields(cases)}
            columns = {
                name: own[some] if isinstance(own, np.ndarray) else own
                for name, own in columns.items()
            }
            known, has_matrix = (
                columns["truth"] != UNKNOWN,
                ~np.isnan(columns["expected"]) & stack.stated,
            )
            own = {
                "terms": stack.terms,
                "term": place[columns["term"]],
                "ids": None,
                "probabilities": columns["probabilities"][:, :width],
                "shadows": {name: chosen[some] for name, chosen in cases.shadows.items()},
                "instances": cases.instances
                and np.array(cases.instances, dtype=object)[some].tolist(),
                "known": known,
                "taken": np.where(
                    columns["action"] == UNKNOWN, columns["choice"], columns["action"]
                ),
                "has_matrix": has_matrix,
                "priced": np.flatnonzero(known & has_matrix),
            }
            yield Slice(**columns | own, stack=stack, mature=mature)
