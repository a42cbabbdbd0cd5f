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
# Per class; the rounding of inputs, products and sums stays below half of it.
TIE = 8 * float(np.finfo(np.float64).eps)

MOST_CELLS_IN_WORDS = 100
MOST_CHARACTERS_IN_WORDS = 1_000  # headers of answers have room for so many
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

    Shapes: posteriors P (n, K); B (K, A), one matrix for all rows, or (n, K, A), one for each row.
    The choice minimises the expected regret `sum_i p_i (max_c b[i][c] - b[i][a])`. That is the same
    rule as a sum of nonnegative terms, in which nothing cancels. So a constant that is added
    exactly to a row of B, however large, changes no decision. Nor does a positive factor, down to
    about 1e-300, where floats lose digits. Actions whose regrets differ by rounding only
    (relatively `TIE * K`) are tied. O(n K A).
    """
    if B.ndim == 3 and len(B) == 1:
        B = B[0]
    regrets_by_class = losses(B)
    if B.ndim == 2:
        return Decision(least(regrets_by_class.T.dot(P.T), P.shape[1]), P.dot(B))
    expected_regrets = np.einsum("nk,nka->an", P, regrets_by_class)
    return Decision(least(expected_regrets, P.shape[1]), np.einsum("nk,nka->na", P, B))


@dataclass(frozen=True)
class Prepared:
    """A checked benefit matrix (K, A), or one for each instance (n, K, A), kept for later calls.

    `actions` name its columns; without names, `is_named` false, they are the classes. `best` are
    the actions that were best for the classes in training. `like_costs` are warnings that depend on
    the order in which the caller has the actions. With `cases` the matrix depends on the case, and
    `by_case` computes it.
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
        """What looks like a mistake in the matrix."""
        return oddities(self.benefits, self.actions, self.classes, self.best) or [
            *self.like_costs
        ]

    @cached_property
    def in_words(self) -> list[str]:
        """What each action brings or costs, a sentence for each class, so that people notice a
        wrong sign or a transposed matrix.

        Empty for a large matrix, and where each instance has a matrix.
        """
        if self.benefits.ndim > 2 or self.benefits.size > MOST_CELLS_IN_WORDS:
            return []
        terms = (
            {}
            if self.cases is None
            else {(t.row, t.action): t for t in self.cases.terms}
        )
        sentences = []
        for k, row in enumerate(self.benefits.tolist()):
            effects = [
                _effect(benefit, terms.get((k, a))) for a, benefit in enumerate(row)
            ]
            pairs = zip(self.actions, effects, strict=True)
            listed = ", ".join(f"{action} {effect}" for action, effect in pairs)
            sentences.append(f"{self.classes[k]}: {listed}")
        length = sum(map(len, sentences))
        return sentences if length <= MOST_CHARACTERS_IN_WORDS else []

    @cached_property
    def notes(self) -> dict[str, Any]:
        """Values that other modules derive from the matrix and keep with it."""
        return {}

    @cached_property
    def _losses_by_action(self) -> np.ndarray:
        return losses(self.benefits).T

    def decide(self, P: np.ndarray) -> Decision:
        """`decide` for each row of posteriors P (n, K)."""
        if self.benefits.ndim == 3:
            return decide(P, self.benefits)
        return Decision(
            least(self._losses_by_action.dot(P.T), P.shape[1]), P.dot(self.benefits)
        )


def _effect(benefit: float, term: Term | None) -> str:
    """What the action of a cell brings or costs, with the `term` of a cell that depends on the
    case.
    """
    if term is None:
        return f"{'costs' if benefit < 0 else 'brings'} {abs(benefit):.15g}"
    varying = f"{abs(term.times):.15g} times {term.column}"
    if benefit == 0:
        return f"{'costs' if term.times < 0 else 'brings'} {varying}"
    return f"brings {benefit:.15g} {'less' if term.times < 0 else 'plus'} {varying}"


def regrets(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Expected regrets, float64 (A, n), shapes as in `decide`.

    Equal rows have equal regrets to the last bit, whatever the other rows are.
    """
    regrets_by_class = losses(B)
    R = np.zeros((B.shape[-1], len(P)))
    for k in range(P.shape[1]):
        of_class = (
            regrets_by_class[k][:, None] if B.ndim == 2 else regrets_by_class[:, k].T
        )
        R += of_class * P[:, k]
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
        dominant = (
            f"in the benefit matrices of {count} of {len(B)} instances one action"
        )
    else:
        best = int(inferior.argmin())
        dominant = f"action {(best if actions is None else actions[best])!r}"
    reason = "is at least as good as every other for every class"
    return [f"{dominant} {reason}: decisions do not depend on the data"]


def like_costs(B: np.ndarray) -> list[str]:
    """A warning where no benefit is negative, and each class earns least by the action in its own
    place.

    B is (K, A) or (n, K, A), actions in the order in which the request has them. O(size).
    """
    if B.shape[-1] != B.shape[-2] or B.shape[-1] < 2 or (B < 0).any():
        return []
    diagonal = np.diagonal(B, axis1=-2, axis2=-1)[..., None]
    if ((diagonal >= B).sum(axis=-1) > 1).any():
        return []
    diagonal_is_least = "in each row that of the same place is the least"
    return [
        f"no number of 'benefits' is negative, and {diagonal_is_least}: are these costs?"
    ]


def _namesakes(actions: Sequence[object], classes: Sequence[object]) -> tuple[int, ...]:
    """The column of the action that has each class's name; empty unless every class has one."""
    if actions is classes:
        return tuple(range(len(classes)))
    column = {str(name): a for a, name in enumerate(actions)}
    names = [str(name) for name in classes]
    return tuple(column[name] for name in names) if column.keys() >= set(names) else ()


def oddities(
    B: np.ndarray,
    actions: Sequence[object] | None = None,
    classes: Sequence[object] = (),
    before: Sequence[object] = (),
) -> list[str]:
    """Warnings about a matrix that may be transposed or shuffled, or that may contain costs.

    The first is that of `irrelevance`. The second: in no class the action of the same name is the
    best. Where actions do not have the names of classes, it compares with the actions that were the
    best `before`, in training. Shapes and names as in `irrelevance`; without `actions` the columns
    are the `classes` where they are as many. O(size).
    """
    if actions is None and B.shape[-1] == len(classes):
        actions = classes
    warnings = irrelevance(B, actions)
    if warnings or actions is None:
        return warnings
    expected = "the one of the same name"
    columns = _namesakes(actions, classes)
    if not columns and before:
        expected = "the one which was the best in training"
        columns = _namesakes(actions, before)
    if not columns:
        return []
    is_best = losses(B) == 0
    plausible = is_best[..., np.arange(len(columns)), columns].any(axis=-1)
    if plausible.all():
        return []
    matrices = (
        f" in {int((~plausible).sum())} of {len(B)} matrices" if B.ndim == 3 else ""
    )
    convention = "rows are actual classes, columns are actions, and benefits are gains, not costs"
    return [f"in no class the best action is {expected}{matrices}: {convention}"]


def class_means(
    y: np.ndarray, B: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """The mean benefits (K, A) of the rows of each class, for codes y (n,) and B (n, K, A).

    A class without rows has the mean of all rows. B (K, A) is returned as it is. `weights` (n,) are
    positive, 1 each by default.
    """
    if B.ndim == 2:
        return B
    masks = [y == k if (y == k).any() else slice(None) for k in range(B.shape[1])]
    weights = np.ones(len(y)) if weights is None else weights
    means = [np.average(B[r, k], 0, weights[r]) for k, r in enumerate(masks)]
    return np.array(means)


def mu(benefit: float, bound: float) -> float | None:
    """The share `benefit / bound`, 1 being perfect: the paper's performance metric (Benefit-Based
    Performance Metric).

    None where the bound is not positive, or so small that the ratio overflows.
    """
    ratio = float(benefit) / float(bound) if bound > 0 else math.inf
    return ratio if math.isfinite(ratio) else None


def row_benefits(y: np.ndarray, choice: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The benefit of each decision, float64 (n,), for class codes y (n,), actions (n,) and B (K, A)
    or (n, K, A).
    """
    earned: np.ndarray = (
        B[y, choice] if B.ndim == 2 else B[np.arange(len(y)), y, choice]
    )
    return earned


def confusion(
    y: np.ndarray, choice: np.ndarray, n_classes: int, n_actions: int
) -> np.ndarray:
    """The number of rows by true class and action: int64 (K, A) from class codes (n,) and actions
    (n,).
    """
    counts = np.bincount(y * n_actions + choice, minlength=n_classes * n_actions)
    return counts.reshape(n_classes, n_actions).astype(np.int64, copy=False)


def as_benefits(
    value: Any,
    n_classes: int,
    n_instances: int | None = None,
    n_actions: int | None = None,
) -> np.ndarray:
    """Benefits from nested lists as float64: (K, A), or (n, K, A) where nested three deep.

    With `n_instances` so many matrices are allowed, too; with None only a single matrix is.
    `n_actions` is the number of columns; with None any number is allowed. Benefits are finite
    numbers of magnitude at most `LARGEST`. Raises Invalid with the place of each flaw,
    `/class/action` or `/instance/class/action`. O(size).
    """
    by_instance = _is_nested(value, 3)
    if by_instance and n_instances is None:
        raise Invalid(
            "invalid benefit matrix",
            [Flaw("", "one benefit matrix is allowed here, not one per instance")],
        )
    first = value[0] if by_instance else value
    width = n_actions or (len(first[0]) if _is_nested(first, 2) else 1)
    shape = [n_classes, max(width, 1)]
    if by_instance and n_instances is not None:
        shape.insert(0, n_instances)
    B = _converted(value, shape)
    if B is None:
        raise Invalid("invalid benefit matrix", _flaws(value, shape, ""))
    return B


def losses(B: np.ndarray) -> np.ndarray:
    """The regret of each action for each class, shaped like B, nonnegative."""
    # For one matrix per row ten times as fast as `max`.
    best: np.ndarray = reduce(np.maximum, np.moveaxis(B, -1, 0))
    regrets_by_class: np.ndarray = best[..., None] - B
    return regrets_by_class


def least(regrets: np.ndarray, n_classes: int) -> np.ndarray:
    """The lowest index with the least regret up to rounding in every column of regrets (A, n)."""
    if regrets.shape[1] == 1:  # for a single row, lists are faster than arrays
        regret_of = regrets[:, 0].tolist()
        highest = min(regret_of) * (1.0 + TIE * n_classes)
        return np.array(
            [next(a for a, regret in enumerate(regret_of) if regret <= highest)]
        )
    tied: np.ndarray = regrets <= regrets.min(axis=0) * (1.0 + TIE * n_classes)
    if len(tied) == 2:  # comparing two rows takes a tenth of the time of `argmax`
        first: np.ndarray = (tied[1] > tied[0]).astype(np.intp)
    else:
        first = tied.argmax(axis=0)
    return first


def _is_nested(value: Any, levels: int) -> bool:
    """Whether the first elements are nested lists, `levels` deep."""
    if type(value) not in _LISTS:
        return False
    return levels == 1 or (bool(value) and _is_nested(value[0], levels - 1))


def _converted(value: Any, shape: Sequence[int]) -> np.ndarray | None:
    """Nested lists as float64; None where they have another shape, or contain anything but numbers
    of magnitude at most `LARGEST`.
    """
    level = [value]
    for size in shape:
        if not (
            _LISTS.issuperset(map(type, level)) and {size}.issuperset(map(len, level))
        ):
            return None
        level = list(chain.from_iterable(level))
    if not _NUMBERS.issuperset(map(type, level)):
        return None
    try:
        B = np.array(level, dtype=np.float64).reshape(shape)
    except OverflowError:  # an integer larger than all floats
        return None
    return B if np.abs(B).max(initial=0.0) <= LARGEST else None  # NaN compares false


def refused_benefit(value: Any) -> str | None:
    """What keeps a cell from being a benefit, as a message."""
    if type(value) not in _NUMBERS:
        return f"a benefit is a number, not {described(value)}"
    if abs(value) <= LARGEST:
        return None
    return f"a benefit is a finite number of magnitude at most {LARGEST:g}"


def _flaws(value: Any, shape: Sequence[int], loc: str) -> Iterator[Flaw]:
    """What keeps the value at `loc` from being nested lists of benefits of this shape."""
    if not shape:
        message = refused_benefit(value)
        if message:
            yield Flaw(loc, message)
        return
    parts, unit = _PARTS[len(shape)]
    if type(value) not in _LISTS:
        yield Flaw(loc, f"here is a list of {parts}, one per {unit}")
    elif len(value) != shape[0]:
        yield Flaw(
            loc, f"{len(value)} {parts} where {shape[0]} are needed, one per {unit}"
        )
    else:
        for i, part in enumerate(value):
            yield from _flaws(part, shape[1:], loc + pointer(i))


# By the number of levels of nested lists: the elements, and what there is one element for.
_PARTS = {
    1: ("benefits", "action"),
    2: ("rows", "actual class"),
    3: ("benefit matrices", "instance"),
}
