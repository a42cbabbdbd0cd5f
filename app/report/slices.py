"""Slices: recorded cases that can be computed together, with further columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from app.outcomes.decision import UNKNOWN, Cases, Label, Terms
from payoff.evidence.intervals import risk

AT_ONCE = 1 << 17  # rows of a slice
CELLS = 1 << 21  # of the matrices of a stack, 16 MB
ROW_CELLS = 1 << 23  # of the matrices of a slice's rows, 64 MB


@dataclass(frozen=True)
class Stack:
    """The terms of many cases of the same version, classes and actions: `matrices` (T, K, A), 0
    where none is `stated`.

    Of each of the T terms: `best` (T, K), the benefit of the best action in each class; `plain`
    (T,), whether the probabilities are the model's own, with all features and without stated
    priors; `explore` (T,), the share of decisions that were drawn, NaN for none.
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
        """The stack of terms that have version, classes and actions in common, and all a matrix or
        none.
        """
        first = terms[0]
        stated = first.benefits is not None
        matrices = np.zeros((len(terms), len(first.classes), len(first.actions)))
        if stated:
            matrices = np.array([term.benefits for term in terms], dtype=np.float64)
        plain = [term.verb == "predict" and term.priors is None for term in terms]
        explore = [(term.figures or {}).get("explore", np.nan) for term in terms]
        return cls(
            terms,
            first.version,
            first.classes,
            first.actions,
            stated,
            matrices,
            best=matrices.max(axis=2),
            plain=np.array(plain),
            explore=np.array(explore, dtype=np.float64),
        )


class Money(NamedTuple):
    """Promised and earned benefits of the m cases with known truth and a matrix, (..., m) each.

    `decided` is the benefit of the decisions by their matrix, and `promised` the expected one, with
    its `risks` (2, m). `overridden` is whether another action was really performed;
    `performed_earned`, `performed_promised` and `performed_risks` are `decided`, `promised` and
    `risks` of the actions really performed. `received` is the benefit that the client reported,
    else `performed_earned`.
    """

    decided: np.ndarray
    promised: np.ndarray
    risks: np.ndarray
    overridden: np.ndarray
    performed_earned: np.ndarray
    performed_promised: np.ndarray
    performed_risks: np.ndarray
    received: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Slice(Cases):
    """Some cases of one day whose terms are those of a stack.

    `mature`: their truths can be used; else no truth counts as known. `known` (n,): the truth is
    known. `performed` (n,): the action really performed, by default the one decided. `has_matrix`
    (n,). `priced` (m,) are the rows with known truth and a matrix.
    """

    stack: Stack
    mature: bool
    known: np.ndarray
    performed: np.ndarray
    has_matrix: np.ndarray
    priced: np.ndarray

    def payoffs(self, rows: Any, way: np.ndarray) -> np.ndarray:
        """(rows, K): the benefits of the actions (n,) of a way in each class."""
        return np.asarray(self.stack.matrices[self.term[rows], :, way[rows]])

    @cached_property
    def money(self) -> Money:
        """See `Money`."""
        rows = self.priced
        truth = self.truth[rows]
        payoffs = self.payoffs(rows, self.choice)
        decided = payoffs[np.arange(len(rows)), truth]
        promised = self.expected[rows]
        risks = risk(self.probabilities[rows], payoffs)
        performed_earned = decided
        performed_promised = promised
        performed_risks = risks
        overridden = (self.performed != self.choice)[rows]
        if overridden.any():
            P = self.probabilities[rows[overridden]]
            payoffs = self.payoffs(rows[overridden], self.performed)
            performed_earned = decided.copy()
            performed_earned[overridden] = payoffs[np.arange(len(P)), truth[overridden]]
            performed_promised = promised.copy()
            performed_promised[overridden] = (P * payoffs).sum(axis=1)
            performed_risks = risks.copy()
            performed_risks[:, overridden] = risk(P, payoffs)
        reported = self.benefit[rows]
        return Money(
            decided=decided,
            promised=promised,
            risks=risks,
            overridden=overridden,
            performed_earned=performed_earned,
            performed_promised=performed_promised,
            performed_risks=performed_risks,
            received=np.where(np.isnan(reported), performed_earned, reported),
        )


def slices(
    cases: Cases,
    immature: int | None = None,
    alike: Callable[[Terms], Hashable] = lambda _: None,
) -> Iterator[Slice]:
    """The cases in parts of bounded size, without truths from the day `immature` on.

    The terms of a part have the same version, classes and actions, all of them a matrix or none,
    and the same value of `alike`.
    """
    mature = immature is None or cases.day < immature
    if not mature:
        no_index = np.full(len(cases), UNKNOWN, dtype=np.int32)
        no_amount = np.full(len(cases), np.nan)
        cases = replace(
            cases, truth=no_index, action=no_index, benefit=no_amount, number=no_amount
        )
    groups = _term_groups(cases.terms, alike)
    group_of, place = np.empty((2, len(cases.terms)), dtype=np.intp)
    for number, group in enumerate(groups):
        group_of[group] = number
        place[group] = np.arange(len(group))
    order = np.arange(len(cases))
    if len(groups) > 1:
        order = np.argsort(group_of[cases.term], kind="stable")
    ends = np.cumsum(np.bincount(group_of[cases.term], minlength=len(groups)))
    parts = np.split(order, ends[:-1]) if groups else []
    for group, rows in zip(groups, parts, strict=True):
        stack = Stack.of([cases.terms[i] for i in group])
        size = min(
            AT_ONCE, max(ROW_CELLS // (len(stack.classes) * len(stack.actions)), 1)
        )
        for start in range(0, len(rows), size):
            yield _slice(cases, rows[start : start + size], stack, place, mature=mature)


def _term_groups(
    terms: Sequence[Terms], alike: Callable[[Terms], Hashable]
) -> list[list[int]]:
    """Indices of terms that form a stack, whose matrices have at most `CELLS` cells together."""
    by_kind = defaultdict[Hashable, list[int]](list)
    for i, term in enumerate(terms):
        kind = (
            term.version,
            term.classes,
            term.actions,
            term.benefits is None,
            alike(term),
        )
        by_kind[kind].append(i)
    groups: list[list[int]] = []
    for indices in by_kind.values():
        term = terms[indices[0]]
        size = max(CELLS // (len(term.classes) * len(term.actions)), 1)
        groups += [
            indices[start : start + size] for start in range(0, len(indices), size)
        ]
    return groups


def _slice(
    cases: Cases, rows: np.ndarray, stack: Stack, place: np.ndarray, *, mature: bool
) -> Slice:
    """The rows of the cases; `place` are the places of terms in the stack."""
    index: Any = rows
    if len(rows) == len(cases):
        index = slice(None)  # a view of all
    columns = {column.name: getattr(cases, column.name) for column in fields(cases)}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            columns[name] = column[index]
    width = stack.terms[0].width
    choice, action = columns["choice"], columns["action"]
    known = columns["truth"] != UNKNOWN
    has_matrix = ~np.isnan(columns["expected"]) & stack.stated
    columns["terms"] = stack.terms
    columns["term"] = place[columns["term"]]
    columns["probabilities"] = columns["probabilities"][:, :width]
    columns["shadows"] = {
        name: choices[index] for name, choices in cases.shadows.items()
    }
    for name in ("ids", "instances"):
        if columns[name]:
            columns[name] = np.array(columns[name], dtype=object)[index].tolist()
    return Slice(
        **columns,
        stack=stack,
        mature=mature,
        known=known,
        performed=np.where(action == UNKNOWN, choice, action),
        has_matrix=has_matrix,
        priced=np.flatnonzero(known & has_matrix),
    )
