"""Recorded cases that can be computed together, with what is computed of each case as columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from app.decisions.benefit import losses
from app.evidence.intervals import Risk, risk
from app.outcomes.decision import UNKNOWN, Cases, Label, Terms

AT_ONCE = 1 << 17  # rows
CELLS = 1 << 21  # of matrices, 16 MB
ROW_CELLS = 1 << 23  # of the matrices of rows, 64 MB


@dataclass(frozen=True)
class Stack:
    """The terms of many cases of the same version, classes and actions: `matrices` (T, K, A), 0 where none is `stated`.

    Of each term (T,): `plain`, whether the probabilities are the model's own, with all features and without stated
    priors; `explore`, the share of decisions that were drawn, NaN for none.
    """

    terms: Sequence[Terms]
    version: int
    classes: tuple[Label, ...]
    actions: tuple[Label, ...]
    stated: bool
    matrices: np.ndarray
    plain: np.ndarray
    explore: np.ndarray

    @classmethod
    def of(cls, terms: Sequence[Terms]) -> Stack:
        one, stated = terms[0], terms[0].benefits is not None
        shape = len(terms), len(one.classes), len(one.actions)
        matrices = np.array([term.benefits for term in terms], dtype=np.float64) if stated else np.zeros(shape)
        plain = np.array([term.verb == "predict" and term.priors is None for term in terms])
        explore = np.array([(term.figures or {}).get("explore", np.nan) for term in terms], dtype=np.float64)
        return cls(terms, one.version, one.classes, one.actions, stated, matrices, plain, explore)

    @cached_property
    def best(self) -> np.ndarray:
        """What the best action earns in each class, (T, K)."""
        return np.asarray(self.matrices.max(axis=2))

    @cached_property
    def losses(self) -> np.ndarray:
        """The regret of each action for each class, (T, K, A)."""
        return losses(self.matrices)


@dataclass(frozen=True, kw_only=True)
class Slice(Cases):
    """Some cases of one day whose terms are those of a stack; each column is computed once and where it is asked for.

    `known` (n,): the truth is known. `priced` (m,) are the rows with known truth and a matrix; columns of these have m
    rows and say so.
    """

    stack: Stack
    mature: bool  # else no truth is known

    @cached_property
    def known(self) -> np.ndarray:
        return np.asarray(self.truth != UNKNOWN)

    @cached_property
    def has_matrix(self) -> np.ndarray:
        return np.asarray(~np.isnan(self.expected) & self.stack.stated)

    @cached_property
    def priced(self) -> np.ndarray:
        return np.flatnonzero(self.known & self.has_matrix)

    @cached_property
    def taken(self) -> np.ndarray:
        """(n,): the action that was really taken, where nobody told otherwise the one decided."""
        return np.where(self.action == UNKNOWN, self.choice, self.action)

    def payoffs(self, rows: Any, way: np.ndarray) -> np.ndarray:
        """(rows, K): what the actions (n,) of a way earn in each class."""
        return np.asarray(self.stack.matrices[self.term[rows], :, way[rows]])

    def earned(self, rows: np.ndarray, way: np.ndarray) -> np.ndarray:
        """(rows,): what the actions (n,) of a way earn in the classes that were true."""
        return np.asarray(self.stack.matrices[self.term[rows], self.truth[rows], way[rows]])

    @cached_property
    def decided(self) -> np.ndarray:
        """(m,): what the decisions earn by their matrix."""
        return self.earned(self.priced, self.choice)

    @cached_property
    def promised(self) -> np.ndarray:
        """(m,): the benefit that was expected of the decisions."""
        return np.asarray(self.expected[self.priced])

    @cached_property
    def risks(self) -> Risk:
        """Of the decisions, (m,)."""
        return risk(self.probabilities[self.priced], self.payoffs(self.priced, self.choice))

    @cached_property
    def overridden(self) -> np.ndarray:
        """(m,): whether another action was really taken."""
        return np.asarray((self.taken != self.choice)[self.priced])

    @cached_property
    def taken_earned(self) -> np.ndarray:
        """(m,): what the actions really taken earn by their matrix."""
        return self.earned(self.priced, self.taken)

    @cached_property
    def received(self) -> np.ndarray:
        """(m,): the benefit that was told, else `taken_earned`."""
        told = self.benefit[self.priced]
        return np.where(np.isnan(told), self.taken_earned, told)

    @cached_property
    def taken_promise(self) -> tuple[np.ndarray, Risk]:
        """(m,) each: the benefit that the model expected of the actions really taken, and how that varies."""
        other, promised, logit, width = self.overridden, self.promised, self.risks.logit, self.risks.width
        if other.any():
            rows = self.priced[other]
            P, payoffs = self.probabilities[rows], self.payoffs(rows, self.taken)
            own, promised, logit, width = risk(P, payoffs), promised.copy(), logit.copy(), width.copy()
            promised[other], logit[other], width[other] = (P * payoffs).sum(axis=1), own.logit, own.width
        return promised, Risk(logit, width)


def settled(cases: Cases, immature: int | None) -> Cases:
    """The cases, without truths from the day `immature` on."""
    if immature is None or cases.day < immature:
        return cases
    nobody, untold = np.full(len(cases), UNKNOWN, dtype=np.int32), np.full(len(cases), np.nan)
    return replace(cases, truth=nobody, action=nobody, benefit=untold)


def slices(
    cases: Cases, immature: int | None = None, alike: Callable[[Terms], Hashable] = lambda _: None
) -> Iterator[Slice]:
    """The cases in parts of bounded size, without truths from the day `immature` on; the terms of a part have the same
    version, classes and actions, all of them a matrix or none, and the same value of `alike`.
    """
    mature = immature is None or cases.day < immature
    cases = settled(cases, immature)
    for stack, term, places in _stacks(cases, alike):
        _, K, A = stack.matrices.shape
        size = min(AT_ONCE, max(ROW_CELLS // (K * A), 1))
        for begin in range(0, len(term), size):
            some = slice(begin, begin + size)
            yield _slice(cases, stack, mature, term[some], some if places is None else places[some])


def _stacks(cases: Cases, alike: Callable[[Terms], Hashable]) -> Iterator[tuple[Stack, np.ndarray, np.ndarray | None]]:
    """Terms of bounded size together, the term of each of their cases, and which cases these are; None for all."""
    parts: dict[Hashable, list[int]] = {}
    for i, one in enumerate(cases.terms):
        kind = one.version, one.classes, one.actions, one.benefits is None, alike(one)
        parts.setdefault(kind, []).append(i)
    few = [
        part[begin : begin + size]
        for part in parts.values()
        for size in [max(CELLS // (len(cases.terms[part[0]].classes) * len(cases.terms[part[0]].actions)), 1)]
        for begin in range(0, len(part), size)
    ]
    if len(few) == 1:
        yield Stack.of(cases.terms), cases.term, None
        return
    part_of, place = np.empty((2, len(cases.terms)), dtype=np.intp)
    for number, part in enumerate(few):
        part_of[part], place[part] = number, np.arange(len(part))
    order = np.argsort(part_of[cases.term], kind="stable")
    ends = np.cumsum(np.bincount(part_of[cases.term], minlength=len(few)))
    for part, rows in zip(few, np.split(order, ends[:-1]) if few else [], strict=True):
        if len(rows):
            yield Stack.of([cases.terms[i] for i in part]), place[cases.term[rows]], rows


def _slice(cases: Cases, stack: Stack, mature: bool, term: np.ndarray, rows: Any) -> Slice:
    columns = {field.name: getattr(cases, field.name) for field in fields(cases)}
    columns = {name: own[rows] if isinstance(own, np.ndarray) else own for name, own in columns.items()}
    own = {
        "terms": stack.terms,
        "term": term,
        "ids": None,
        "probabilities": columns["probabilities"][:, : len(stack.classes)],
        "shadows": {name: chosen[rows] for name, chosen in cases.shadows.items()},
        "instances": cases.instances and np.array(cases.instances, dtype=object)[rows].tolist(),
    }
    return Slice(**columns | own, stack=stack, mature=mature)
