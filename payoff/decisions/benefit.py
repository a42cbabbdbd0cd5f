"""Decisions from posteriors and a benefit matrix, and the benefit of decisions.

`B[i][a]` is the benefit of action `a` if the true class is `i`: positive is gain, negative is cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from payoff.errors import Flaw, Invalid, described, pointer

if TYPE_CHECKING:
    from payoff.decisions.case_benefits import CaseBenefits, Term

LARGEST = 1e150  # sums and products of two such benefits stay far from overflow
TIE = 8 * float(
    np.finfo(np.float64).eps
)  # per class; rounding of inputs, products and sums stays below half of it

MOST_CELLS_IN_WORDS = 100
MOST_CHARACTERS_IN_WORDS = 1_000  # headers of answers have room for them
_LISTS = {list, tuple}
_NUMBERS = {float, int}


class Decision(NamedTuple):
    """The action taken for each of n rows, int (n,), and the expected benefit of every action,
    float64 (n, A).
    """

    choice: np.ndarray
    expected_benefits: np.ndarray


def decide(P: np.ndarray, B: np.ndarray) -> Decision:
    """The action with the largest expected benefit `sum_i p_i b[i][a]` for every row, ties to the
    lowest index.

    Shapes: posteriors P (n, K); B (K, A) for all rows or (n, K, A) for each its own. The choice is
    made on expected regrets `sum_i p_i (max_c b[i][c] - b[i][a])`, the same rule as a sum of
    nonnegative terms: nothing cancels, so a constant added to a row of B, however large, changes no
    decision as long as it is added exactly, nor does a positive factor, down to 1e-300 or so, where
    floats lose digits. Actions whose regrets differ by rounding only (relatively `TIE * K`) are
    tied. O(n K A).
    """
    if B.ndim == 3 and len(B) == 1:
        B = B[0]
    lost = losses(B)
    if B.ndim == 2:
        return Decision(least(lost.T.dot(P.T), P.shape[1]), P.dot(B))
    regrets = np.einsum("nk,nka->an", P, lost)
    return Decision(least(regrets, P.shape[1]), np.einsum("nk,nka->na", P, B))


@dataclass(frozen=True)
class Prepared:
    """A benefit matrix (K, A), or one for each instance (n, K, A), that was checked, kept for the
    next request.

    `actions` name its columns; they are the classes where it is not `is_named`. `best` are the
    actions that were best for the classes in training, `like_costs` is what the request's own order
    of actions says. With `cases` the matrix is still to be computed for each, see `by_case`.
    """

    benefits: np.ndarray
    actions: Sequence[int | str]
    is_named: bool = True
    classes: Sequence[int | str] = ()
    best: Sequence[object] = ()
    like_costs: Sequence[str] = ()
    cases: CaseBenefits | None = None

    @cached_property
    def warnings(self) -> list[str]:
        """What looks like a mistake in it."""
        return oddities(self.benefits, self.actions, self.classes, self.best) or [*self.like_costs]

    @cached_property
    def in_words(self) -> list[str]:
        """What each action brings or costs, a sentence for each class, so that people notice a
        wrong sign or a transposed matrix; empty for a long one, and where each instance has its
        own.
        """
        if self.benefits.ndim > 2 or self.benefits.size > MOST_CELLS_IN_WORDS:
            return []
        terms = {} if self.cases is None else {(t.row, t.action): t for t in self.cases.terms}
        sentences = []
        for k, row in enumerate(self.benefits.tolist()):
            effects = [_effect(benefit, terms.get((k, a))) for a, benefit in enumerate(row)]
            pairs = zip(self.actions, effects, strict=True)
            listed = ", ".join(f"{action} {effect}" for action, effect in pairs)
            sentences.append(f"{self.classes[k]}: {listed}")
        length = sum(map(len, sentences))
        return sentences if length <= MOST_CHARACTERS_IN_WORDS else []

    @cached_property
    def notes(self) -> dict[str, Any]:
        """What others keep as long as it."""
        return {}

    @cached_property
    def _losses_by_action(self) -> np.ndarray:
        return losses(self.benefits).T

    def decide(self, P: np.ndarray) -> Decision:
        """`decide` for each row of posteriors P (n, K)."""
        if self.benefits.ndim == 3:
            return decide(P, self.benefits)
        return Decision(least(self._losses_by_action.dot(P.T), P.shape[1]), P.dot(self.benefits))


def _effect(benefit: float, term: Term | None) -> str:
    """What a cell brings or costs, with its `term` where it depends on the case."""
    if term is None:
        return f"{'costs' if benefit < 0 else 'brings'} {abs(benefit):.15g}"
    varying = f"{abs(term.times):.15g} times {term.column}"
    if benefit == 0:
        return f"{'costs' if term.times < 0 else 'brings'} {varying}"
    return f"brings {benefit:.15g} {'less' if term.times < 0 else 'plus'} {varying}"


def regrets(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Expected regrets, float64 (A, n), shapes as in `decide`; the same for equal rows, whatever
    the other rows are.
    """
    lost = losses(B)
    R = np.zeros((B.shape[-1], len(P)))
    for k in range(P.shape[1]):
        R += lost[k][:, None] * P[:, k] if B.ndim == 2 else lost[:, k].T * P[:, k]
    return R


def irrelevance(B: np.ndarray, actions: Sequence[object] | None = None) -> list[str]:
    """A warning if one action is at least as good as every other for every class.

    B is (K, A) or (n, K, A); `actions` names the A columns (default: their numbers). Empty where
    the data matter.
    """
    inferior = losses(B).any(axis=-2)
    relevant = inferior.all(axis=-1)
    if relevant.all():
        return []
    if B.ndim == 3:
        count = len(B) - int(np.count_nonzero(relevant))
        which = f"in the benefit matrices of {count} of {len(B)} instances one action"
    else:
        best = int(inferior.argmin())
        which = f"action {(actions[best] if actions is not None else best)!r}"
    return [
        f"{which} is at least as good as every other for every class: decisions do not depend on the data"
    ]


def like_costs(B: np.ndarray) -> list[str]:
    """A warning where no benefit is negative, and each class earns least by the action in its own
    place.

    B is (K, A) or (n, K, A), actions in the order in which the request has them. O(size).
    """
    if B.shape[-1] != B.shape[-2] or B.shape[-1] < 2 or (B < 0).any():
        return []
    own = np.diagonal(B, axis1=-2, axis2=-1)[..., None]
    if ((own >= B).sum(axis=-1) > 1).any():
        return []
    own_is_least = "in each row that of the same place is the least"
    return [f"no number of 'benefits' is negative, and {own_is_least}: are these costs?"]


def _namesakes(actions: Sequence[object], classes: Sequence[object]) -> tuple[int, ...]:
    """The column of the action that has each class's name; empty unless every class has one."""
    if actions is classes:
        return tuple(range(len(classes)))
    column = {str(name): a for a, name in enumerate(actions)}
    return (
        tuple(column.get(str(name), -1) for name in classes)
        if column.keys() >= set(map(str, classes))
        else ()
    )


def oddities(
    B: np.ndarray,
    actions: Sequence[object] | None = None,
    classes: Sequence[object] = (),
    before: Sequence[object] = (),
) -> list[str]:
    """Warnings about a matrix that may be transposed, shuffled, or of costs: see `irrelevance`; or
    in no class the best action is that of the same name, or, where actions have names of their own,
    that which was the best `before`, in training.

    Shapes and names as in `irrelevance`; without `actions` the columns are the `classes` where they
    are as many.
    """
    if actions is None and B.shape[-1] == len(classes):
        actions = classes
    if found := irrelevance(B, actions):
        return found
    own, owned = () if actions is None else _namesakes(actions, classes), "the one of the same name"
    if not own and before and actions is not None:
        own, owned = _namesakes(actions, before), "the one which was the best in training"
    best = losses(B) == 0
    if len(own) and not (hits := best[..., np.arange(len(own)), own].any(axis=-1)).all():
        where = f" in {int((~hits).sum())} of {len(B)} matrices" if B.ndim == 3 else ""
        found.append(
            f"in no class the best action is {owned}{where}: rows are actual classes, columns are actions, and"
            " benefits are gains, not costs"
        )
    return found


def class_means(y: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The mean benefits (K, A) of the rows of each class, for codes y (n,) and B (n, K, A); of (K,
    A) these.

    A class without rows has the mean of all.
    """
    if B.ndim == 2:
        return B
    rows = [B[y == k, k] if (y == k).any() else B[:, k] for k in range(B.shape[1])]
    return np.array([of_class.mean(axis=0) for of_class in rows])


def mu(benefit: float, bound: float) -> float | None:
    """`benefit / bound`, 1 being perfect; None where the bound is not positive or so small that the
    ratio overflows.

    The paper's performance metric (Benefit-Based Performance Metric).
    """
    ratio = float(benefit) / float(bound) if bound > 0 else math.inf
    return ratio if math.isfinite(ratio) else None


def row_benefits(y: np.ndarray, choice: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The benefit of each decision, float64 (n,), for class codes y (n,), actions (n,) and B (K, A)
    or (n, K, A).
    """
    earned: np.ndarray = B[y, choice] if B.ndim == 2 else B[np.arange(len(y)), y, choice]
    return earned


def confusion(y: np.ndarray, choice: np.ndarray, n_classes: int, n_actions: int) -> np.ndarray:
    """The number of rows by true class and action: int64 (K, A) from class codes (n,) and actions
    (n,).
    """
    counts = np.bincount(y * n_actions + choice, minlength=n_classes * n_actions)
    return counts.reshape(n_classes, n_actions).astype(np.int64, copy=False)


def as_benefits(
    value: Any, n_classes: int, n_instances: int | None = None, n_actions: int | None = None
) -> np.ndarray:
    """Benefits as sent, nested lists, as float64: (K, A), or (n, K, A) where nested three deep.

    `n_instances` allows, and counts, one matrix per instance; None allows a single matrix only.
    `n_actions` is the number of columns needed; None takes any. Benefits are finite numbers of
    magnitude at most `LARGEST`. Raises Invalid with the place of each flaw, `/class/action` or
    `/instance/class/action`. O(size).
    """
    first, instances = (value[0], (n_instances,)) if _is_nested(value, 3) else (value, ())
    width = n_actions or (len(first[0]) if _is_nested(first, 2) else 1)
    shape = *(count for count in instances if count is not None), n_classes, max(width, 1)
    if None in instances:
        raise Invalid(
            "invalid benefit matrix",
            [Flaw("", "one benefit matrix is allowed here, not one per instance")],
        )
    B = _converted(value, shape)
    if B is None:
        raise Invalid("invalid benefit matrix", _flaws(value, shape, ""))
    return B


def losses(B: np.ndarray) -> np.ndarray:
    """The regret of each action for each class, shaped like B, nonnegative."""
    best: np.ndarray = reduce(
        np.maximum, np.moveaxis(B, -1, 0)
    )  # of one matrix per row ten times as fast as `max`
    lost: np.ndarray = best[..., None] - B
    return lost


def least(regrets: np.ndarray, n_classes: int) -> np.ndarray:
    """The lowest index with the least regret up to rounding in every column of regrets (A, n)."""
    if regrets.shape[1] == 1:  # a single prediction: lists beat arrays
        own = regrets[:, 0].tolist()
        most = min(own) * (1.0 + TIE * n_classes)
        return np.array([next(a for a, regret in enumerate(own) if regret <= most)])
    tied: np.ndarray = regrets <= regrets.min(axis=0) * (1.0 + TIE * n_classes)
    if len(tied) == 2:  # a tenth of the time of `argmax`
        first: np.ndarray = (tied[1] > tied[0]).astype(np.intp)
    else:
        first = tied.argmax(axis=0)
    return first


def _is_nested(value: Any, levels: int) -> bool:
    """Whether the first elements are nested lists, `levels` deep."""
    return type(value) in _LISTS and (
        levels == 1 or (bool(value) and _is_nested(value[0], levels - 1))
    )


def _converted(value: Any, shape: Sequence[int]) -> np.ndarray | None:
    """Nested lists as float64, None where they have another shape or hold anything but numbers up
    to `LARGEST`.
    """
    level = [value]
    for size in shape:
        if not (_LISTS.issuperset(map(type, level)) and {size}.issuperset(map(len, level))):
            return None
        level = list(chain.from_iterable(level))
    if not _NUMBERS.issuperset(map(type, level)):
        return None
    try:
        B = np.array(level, dtype=np.float64).reshape(shape)
    except OverflowError:  # an integer beyond all floats
        return None
    return B if np.abs(B).max(initial=0.0) <= LARGEST else None  # NaN compares false


def refused_benefit(value: Any) -> str | None:
    """What keeps a cell from being a benefit, as a message."""
    if type(value) not in _NUMBERS:
        return f"a benefit is a number, not {described(value)}"
    return (
        None
        if abs(value) <= LARGEST
        else f"a benefit is a finite number of magnitude at most {LARGEST:g}"
    )


def _flaws(value: Any, shape: Sequence[int], loc: str) -> Iterator[Flaw]:
    """What keeps it from being numbers of this shape, in detail."""
    if not shape:
        if message := refused_benefit(value):
            yield Flaw(loc, message)
        return
    what, of = _PARTS[len(shape)]
    if type(value) not in _LISTS:
        yield Flaw(loc, f"here is a list of {what}, one per {of}")
    elif len(value) != shape[0]:
        yield Flaw(loc, f"{len(value)} {what} where {shape[0]} are needed, one per {of}")
    else:
        for i, part in enumerate(value):
            yield from _flaws(part, shape[1:], loc + pointer(i))


_PARTS = {
    1: ("benefits", "action"),
    2: ("rows", "actual class"),
    3: ("benefit matrices", "instance"),
}
