"""The benefit matrix of a request: in numbers, in words or by the name of a saved one; benefits or costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from app.decisions.benefit import as_benefits
from app.errors import Flaw, Invalid, below, pointer, reject, unknown
from app.registry.loaded import Loaded
from app.registry.saved_matrices import Checked, Saved, unsaved
from app.text import MAX_NAME
from app.usecases.fields import COSTS, Matrix, NamedMatrix, Names, WireModel
from app.usecases.ports import Ports

_MAX_ACTIONS = 1_000  # where the answer, or the work for it, has no other bound
_MAX_SUGGESTIONS = 2
_NESTED = (dict, list)


class HasMatrix:
    """What states a matrix, as sent in `benefits` or `cost_matrix`, and the `actions` of its columns."""

    benefits: Any
    cost_matrix: Any
    actions: Sequence[str] | None

    @property
    def stated(self) -> bool:
        """Whether there is a matrix."""
        return self.benefits is not None or self.cost_matrix is not None

    @property
    def place(self) -> str:
        """The field that has the matrix."""
        return "/benefits" if self.cost_matrix is None else "/cost_matrix"

    @property
    def saved(self) -> Checked | None:
        """The saved matrix that the request named, once `with_saved` has found it."""
        return self.benefits if isinstance(self.benefits, Checked) else None

    @property
    def columns(self) -> Sequence[str] | None:
        """The names of the columns, as sent or as saved."""
        saved = self.saved
        return saved.actions if saved is not None and saved.ordered else self.actions

    def width(self, default: int = 0) -> int:
        """How many actions there are, before the matrix is checked; `default` where nothing says so.

        Without names it is the length of the first row, of the first matrix.
        """
        level = self.benefits if self.cost_matrix is None else self.cost_matrix
        saved = level if isinstance(level, Checked) else None
        names = saved.actions if saved is not None and saved.ordered else self.actions
        if names is not None:
            return len(names)
        if saved is not None:
            return max(len(saved.actions), default)
        if not isinstance(level, _NESTED):
            return default
        for _ in range(2):
            inner = next(iter(level.values() if isinstance(level, dict) else level), None) if level else None
            if not isinstance(inner, _NESTED):
                break
            level = inner
        return max(len(level), default)


class MatrixFields(WireModel, HasMatrix):
    """A request with a benefit matrix."""

    benefits: Matrix | None = Field(
        default=None, description="a row per actual class, a column per action", examples=[[[0, -1], [-10, 5]]]
    )
    cost_matrix: Matrix | None = Field(default=None, description=COSTS)
    actions: Annotated[Names, Field(min_length=1)] | None = Field(
        default=None,
        description="names of the columns; without them `/acquire` and its simulation take these for the classes",
    )


class NamedMatrixFields(MatrixFields):
    """A request to a model, which may name one of its saved matrices."""

    benefits: NamedMatrix | None = Field(
        default=None,
        description="a row per actual class, a column per action; or the name of a saved matrix",
        examples=[[[0, -1], [-10, 5]]],
    )


class Stakes(NamedTuple):
    """Benefits, (K, A) or (n, K, A), and the names of the A columns; None where they were not named."""

    benefits: np.ndarray
    actions: Sequence[str] | None


def read_matrix(
    sent: HasMatrix,
    classes: Sequence[object],
    *,
    n_instances: int | None = None,
    square: bool = False,
    named: bool = False,
) -> Stakes | None:
    """The matrix that a request states in one of the fields `benefits` and `cost_matrix`; None where it has neither.

    It has a row per class and a column per action: lists in the order of `classes` and of the actions, or an object
    `{class: {action: number}}`, complete and in any order. Costs are negated. `n_instances` allows a list of matrices
    instead, one per instance. With `square` the columns are the classes; with `named` they are the classes unless the
    matrix or `actions` names them. Raises Invalid with the place of each flaw. O(size).
    """
    if sent.benefits is not None and sent.cost_matrix is not None:
        raise Invalid.at("/cost_matrix", "send benefits or cost_matrix, not both")
    costs, actions = sent.cost_matrix is not None, sent.columns
    value = sent.cost_matrix if costs else sent.benefits
    if value is None:
        return None
    if isinstance(value, str):
        raise Invalid.at(
            sent.place,
            f"{value[:MAX_NAME]!r} is no matrix; send the matrix itself: only requests to a model can name a saved one",
        )
    check_distinct(actions or ())
    names = [str(name) for name in classes]
    with below(sent.place):
        if _in_words(value):
            B, actions = _from_words(value, names, names if square else actions, n_instances)
            if named and actions == names and sent.columns is None:
                actions = None
        elif actions is not None:
            B = as_benefits(value, len(names), n_instances, len(actions))
        else:
            B = _unnamed(value, len(names), n_instances, square=square, named=named)
    B = 0.0 - B if costs else B
    return Stakes(B, actions) if actions in (None, names, sent.columns) else _ordered(B, actions)


def _ordered(B: np.ndarray, actions: Sequence[str]) -> Stakes:
    """Actions of a matrix in words, which have no order, in that of the classes for which they are the best."""
    first = B if B.ndim == 2 else B[0]
    best = first == first.max(axis=1, keepdims=True)
    order = np.argsort(np.where(best.any(axis=0), best.argmax(axis=0), len(first)), kind="stable")
    return Stakes(np.ascontiguousarray(B[..., order]), [actions[a] for a in order])


def refuse_actions(sent: HasMatrix) -> None:
    """Invalid where there are actions, for a request without a matrix."""
    if sent.actions is not None:
        raise Invalid.at("/actions", "actions are the columns of benefits; send benefits, too")


def needed_matrix(sent: HasMatrix, classes: Sequence[object], *, square: bool = False, named: bool = False) -> Stakes:
    """`read_matrix`, where a request without a matrix is Invalid."""
    stakes = read_matrix(sent, classes, square=square, named=named)
    if stakes is None:
        raise Invalid.at("/benefits", "send the matrix as 'benefits' or 'cost_matrix'")
    return stakes


def check_distinct(actions: Sequence[str]) -> None:
    """Invalid at /actions where a name occurs twice."""
    if len(set(actions)) < len(actions):
        raise Invalid.at("/actions", "two actions have the same name")


def check_few_actions(sent: HasMatrix, count: int) -> None:
    """Invalid where the matrix has more actions than saved matrices and questions may have."""
    if count > _MAX_ACTIONS:
        place = sent.place if sent.actions is None else "/actions"
        raise Invalid.at(place, f"there are {count:,} actions; at most {_MAX_ACTIONS:,} are supported")


def _unnamed(value: Any, n_classes: int, n_instances: int | None, *, square: bool, named: bool) -> np.ndarray:
    if not (square or named):
        return as_benefits(value, n_classes, n_instances)
    try:
        return as_benefits(value, n_classes, n_instances, n_classes)
    except Invalid:
        as_benefits(value, n_classes, n_instances)  # says what else is wrong
        if square:
            raise
        raise Invalid.at("", "the columns are not the classes; name them in 'actions'") from None


def _in_words(value: Any) -> bool:
    return isinstance(value, dict | Checked) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _from_words(
    value: Any, classes: Sequence[str], actions: Sequence[str] | None, n_instances: int | None
) -> tuple[np.ndarray, Sequence[str] | None]:
    """Benefits, and the names of the columns: `actions`, else the classes, else as the longest row has them."""
    if isinstance(value, Checked):
        if set(value.classes) != set(classes):
            raise Invalid.at("", "the saved matrix is for other classes")
        columns = actions or (classes if set(value.actions) == set(classes) else value.actions)
        return value.in_order(classes, columns), columns
    matrices = [value] if isinstance(value, dict) else value
    rows = [row for row in matrices[0].values() if isinstance(row, dict)]
    found = list(max(rows, key=len, default=()))
    columns = actions or (classes if set(found) == set(classes) else found)
    if not columns:
        raise Invalid.at("", "the matrix names no action")
    if set(found) == set(classes) and not set(matrices[0]) & set(classes):
        raise Invalid.at("", "the matrix is turned: send {class: {action: number}}, as pandas' to_dict('index') has it")
    reject(_flaws(value, classes, columns))
    if actions is None and (longest := max(map(len, columns))) > MAX_NAME:
        raise Invalid.at("", f"an action's name has {longest:,} characters; at most {MAX_NAME} are supported")
    numbers = [[[matrix[name][action] for action in columns] for name in classes] for matrix in matrices]
    try:
        if isinstance(value, dict):
            B = as_benefits(numbers[0], len(classes), None, len(columns))
        else:
            B = as_benefits(numbers, len(classes), n_instances, len(columns))
    except Invalid as error:
        raise Invalid(error.detail, [_by_name(flaw, classes, columns) for flaw in error.flaws]) from error
    return B, columns


def _by_name(flaw: Flaw, classes: Sequence[str], actions: Sequence[str]) -> Flaw:
    """The flaw of a cell, its place in words."""
    steps = [int(step) for step in flaw.loc.split("/")[1:]]
    if len(steps) < 2:
        return flaw
    *instance, row, column = steps
    return Flaw(pointer(*instance, classes[row], actions[column]), flaw.msg)


def _flaws(value: Any, classes: Sequence[str], actions: Sequence[str]) -> Iterator[Flaw]:
    known = frozenset(classes), frozenset(actions)
    matrices = [("", value)] if isinstance(value, dict) else [(pointer(i), each) for i, each in enumerate(value)]
    for at, matrix in matrices:
        if not isinstance(matrix, dict):
            yield Flaw(at, "all matrices have one form: objects by class and action, or lists")
            continue
        yield from _misnamed(at, "class", matrix, classes, known[0])
        for name, row in matrix.items():
            if not isinstance(row, dict):
                yield Flaw(at + pointer(name), "a row is an object with a number for each action")
            elif name in known[0]:
                yield from _misnamed(at + pointer(name), "action", row, actions, known[1])
                lists = (action for action, cell in row.items() if isinstance(cell, list | dict))
                yield from (Flaw(at + pointer(name, action), "a benefit is a number") for action in lists)


def _misnamed(
    at: str, what: str, entries: Mapping[str, Any], names: Sequence[str], known: frozenset[str]
) -> Iterator[Flaw]:
    """What is not known, and what is missing."""
    strange = (name for name in entries if name not in known)
    for number, name in enumerate(strange):  # finding one that is like it takes a while
        shown = unknown(what, name, names) if number < _MAX_SUGGESTIONS else f"unknown {what} {name[:MAX_NAME]!r}"
        yield Flaw(at + pointer(name), shown)
    yield from (Flaw(at, f"{what} {name!r} is missing") for name in names if name not in entries)


def best_in_training(model: Loaded) -> Sequence[object]:
    """For each class the action that was best in the matrix that the model was trained with; empty without one."""
    if model.card.benefits is None:
        return ()
    B = np.array(model.card.benefits)
    names = model.card.actions or (model.classes if B.shape[0] == B.shape[1] else ())
    return [names[a] for a in B.argmax(axis=1)] if names else []


_Sent = TypeVar("_Sent", bound=MatrixFields)


def with_saved(ports: Ports, sent: _Sent, model: str, classes: Sequence[object] | None) -> _Sent:
    """The request with the saved matrix that it names by text; the request itself where it names none.

    No input or output. Invalid with the place where there is no such matrix, where it has other `classes` than the
    model's version, and where the request says more about it. Models without `classes` refuse all matrices.
    """
    reference = sent.benefits
    if not isinstance(reference, str) or not classes:
        return sent
    if sent.cost_matrix is not None:
        raise Invalid.at("/cost_matrix", "send benefits or cost_matrix, not both")
    if sent.actions is not None:
        raise Invalid.at("/actions", "a saved matrix has its own actions; leave out 'actions'")
    known = ports.matrices.of(model)
    if reference not in known:
        raise Invalid.at("/benefits", unsaved(model, reference, known))
    saved = known[reference]
    _check_classes(saved, [str(name) for name in classes])
    return sent.model_copy(update={"benefits": saved.checked})


def _check_classes(saved: Saved, classes: Sequence[str]) -> None:
    own, of = set(classes), saved.checked.classes
    missing = [name for name in classes if name not in of]
    strange = [name for name in of if name not in own]
    if missing or strange:
        what = f"has no class {missing[0]!r}" if missing else f"has the class {strange[0]!r}"
        which = "which this version of the model has" if missing else "which this version of the model does not have"
        fix = f"save the matrix of its classes with PUT /models/{saved.model}/matrices/{saved.matrix}"
        raise Invalid.at("/benefits", f"the saved matrix {saved.reference!r} {what}, {which}; {fix}")
