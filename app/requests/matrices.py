"""The benefit matrix of a request: in numbers or in words; benefits or costs."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, ValidationError

from app.registry.loaded import Loaded
from app.requests.fields import COSTS, CaseCell, Matrix, NamedMatrix, Names, WireModel
from app.tables.features import NO_FEATURES, NUMBERS
from app.tables.text import with_normal_names
from payoff.decisions.benefit import Prepared, as_benefits, like_costs, refused_benefit
from payoff.decisions.case_benefits import CaseBenefits, Columns, Term
from payoff.errors import (
    MAX_NAME,
    Flaw,
    Invalid,
    below,
    flaws_of,
    pointer,
    reject,
    unknown,
    unknown_at,
)

# of a matrix, where nothing else limits the answer, or the work for it
_MAX_ACTIONS = 1_000
MATRIX_REQUIRED = "send the matrix as 'benefits' or 'cost_matrix'"


class MatrixFields(WireModel):
    """A benefit matrix, in `benefits` or `cost_matrix`, and the `actions` of its columns."""

    benefits: Matrix | None = Field(
        default=None,
        description="a row per actual class, a column per action",
        examples=[
            {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
        ],
    )
    cost_matrix: Matrix | None = Field(default=None, description=COSTS)
    actions: Annotated[Names, Field(min_length=1)] | None = Field(
        default=None,
        description="names of the columns; without them, in decisions of a model, the columns are"
        " the classes",
    )
    saved: ClassVar[str | None] = None
    """The version of the saved matrix that the request named, once `with_saved` has put it in place
    of its name.
    """

    @property
    def stated(self) -> bool:
        """Whether there is a matrix."""
        return self.benefits is not None or self.cost_matrix is not None

    @property
    def matrix(self) -> Any:
        """The value of `benefits` or `cost_matrix`, before it is checked."""
        return self.benefits if self.cost_matrix is None else self.cost_matrix

    @cached_property
    def case_columns(self) -> frozenset[str]:
        """The columns that cells of the matrix name, before it is checked."""
        return columns_of_matrix(self.matrix)

    @property
    def place(self) -> str:
        """The field that has the matrix."""
        return "/benefits" if self.cost_matrix is None else "/cost_matrix"

    @cached_property
    def width(self) -> int:
        """The number of actions, before the matrix is checked: without names the length of the
        first row, of the first matrix.
        """
        if self.actions is not None:
            return len(self.actions)
        first = _first(self.matrix)
        is_matrix = isinstance(first, dict) or isinstance(_first(first), list)
        if isinstance(self.matrix, list) and is_matrix:  # one matrix per instance
            first = _first(first)
        return len(first) if isinstance(first, list | dict) else 0


def columns_of_matrix(matrix: Any) -> frozenset[str]:
    """The columns that cells of a matrix name, before it is checked."""
    if isinstance(_first(_first(matrix)), list):  # one matrix per instance
        return frozenset()
    cells = (
        cell for row in _entries(matrix) for cell in _entries(row) if type(cell) is dict
    )
    names = (cell.get("column") for cell in cells)
    return frozenset(name for name in names if isinstance(name, str))


def columns_beside(
    columns: Mapping[str, Any], n: int, used: Collection[str], known: Collection[str]
) -> Columns:
    """The columns that a request sends beside n rows, as float64 (n,).

    Invalid at a column that no cell of the matrix has `used`, or whose name is `known` in the rows.
    """
    for name, values in columns.items():
        with below(pointer("columns", name)):
            if name not in used:
                raise Invalid.at(
                    "", f"cells name other columns: {unknown('column', name, used)}"
                )
            if name in known:
                raise Invalid.at("", f"the instances have {name!r}, too")
            if not isinstance(values, list | np.ndarray) or len(values) != n:
                raise Invalid.at(
                    "", f"a column is a list of {n:,} numbers, one for each instance"
                )
            if isinstance(values, list) and not NUMBERS.issuperset(map(type, values)):
                odd = (
                    i for i, value in enumerate(values) if type(value) not in NUMBERS
                )
                raise Invalid.at(pointer(next(odd)), f"{name!r} takes a number or null")
    return {
        name: np.array(values, dtype=np.float64) for name, values in columns.items()
    }


def _entries(level: Any) -> Iterable[Any]:
    """The entries of a list or an object; of anything else none."""
    if isinstance(level, dict):
        return level.values()
    return level if isinstance(level, list) else ()


def _first(level: Any) -> Any:
    return next(iter(_entries(level)), None)


class NamedMatrixFields(MatrixFields):
    """A request to a model, which may name one of its saved matrices."""

    benefits: NamedMatrix | None = Field(
        default=None,
        description="a row per actual class, a column per action; or the name of a saved matrix",
        examples=[
            {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
        ],
    )


class Stakes(NamedTuple):
    """Benefits, (K, A) or (n, K, A), the names of the A columns, None where they were not named,
    and a warning where benefits look as costs do. Where cells depend on the case, the benefits are
    those of `cases` without these columns.
    """

    benefits: np.ndarray
    actions: Sequence[str] | None
    like_costs: Sequence[str] = ()
    cases: CaseBenefits | None = None


def read_matrix(
    fields: MatrixFields,
    classes: Sequence[object],
    *,
    n_instances: int | None = None,
    square: bool = False,
    cases: bool = True,
) -> Stakes | None:
    """The matrix that a request states in one of the fields `benefits` and `cost_matrix`; None
    where it has neither.

    It has a row per class and a column per action: lists in the order of `classes` and of the
    actions, or an object `{class: {action: number}}`, complete and in any order. Costs are negated.
    `n_instances` allows a list of matrices instead, one per instance. With `square` the columns are
    the classes; without `cases` no cell is `{"column": …}`. Raises Invalid with the place of each
    flaw. O(size).
    """
    if fields.benefits is not None and fields.cost_matrix is not None:
        raise Invalid.at("/cost_matrix", "send benefits or cost_matrix, not both")
    costs = fields.cost_matrix is not None
    value = fields.matrix
    if value is None:
        return None
    if isinstance(value, str):
        raise Invalid.at(
            fields.place,
            f"{value[:MAX_NAME]!r} is no matrix; send the matrix itself: only requests to a model"
            " can name a saved one",
        )
    check_distinct(fields.actions or ())
    names = [str(name) for name in classes]
    words = None
    actions: Sequence[str] | None = fields.actions
    with below(fields.place):
        if isinstance(value, dict) or (
            isinstance(value, list) and isinstance(_first(value), dict)
        ):
            value, actions = _from_words(value, names, names if square else actions)
            words = names, actions
        numbers, terms = _lifted(value, words)
        if terms and not cases:
            raise Invalid.at(
                terms[0].place, "here a benefit is a number, as there are no cases"
            )
        n_actions = len(actions or names) if square or actions is not None else None
        B = as_benefits(numbers, len(names), n_instances, n_actions)
    B = 0.0 - B if costs else B
    is_named = actions not in (None, names)
    doubts = [] if terms else _doubtful_signs(B, costs=costs, named=is_named)
    order = list(range(B.shape[-1]))
    if actions not in (None, names, fields.actions):
        order = _order(B)
        B = np.ascontiguousarray(B[..., order])
        actions = [actions[a] for a in order]
    if not terms:
        return Stakes(B, actions, doubts)
    sign = -1.0 if costs else 1.0
    positions = {a: position for position, a in enumerate(order)}
    case_terms = [
        Term(k, positions[a], name, sign * times + 0.0, fields.place + place)
        for k, a, name, times, place in terms
    ]
    return Stakes(B, actions, doubts, CaseBenefits(B, case_terms))


def _doubtful_signs(B: np.ndarray, *, costs: bool, named: bool) -> list[str]:
    """A warning where benefits B look like costs, or `costs`, of which B are the negatives, look
    like benefits. Benefits are doubted only where actions are `named` apart from the classes.
    """
    if not costs:
        return like_costs(B) if named else []
    if (B < 0).any() or not B.any():
        return []
    return [
        "no number of 'cost_matrix' is positive: a negative cost is a gain; are these benefits?"
    ]


def named_matrix(
    fields: MatrixFields,
    classes: Sequence[int | str],
    n_instances: int | None = None,
    before: Sequence[object] = (),
) -> Prepared | None:
    """`read_matrix` with a name for each column: the classes unless the matrix or `actions` names
    them; `before` are the actions that were best in training.
    """
    stakes = read_matrix(fields, classes, n_instances=n_instances)
    if stakes is None:
        return None
    B, actions, doubts, by_case = stakes
    if actions is None and B.shape[-1] != len(classes):
        raise Invalid.at(
            fields.place, "the columns are not the classes; name them in 'actions'"
        )
    is_named = fields.actions is not None or actions not in (
        None,
        [str(name) for name in classes],
    )
    return Prepared(
        B,
        tuple(actions or ()) if is_named else classes,
        is_named,
        classes,
        before,
        doubts,
        by_case,
    )


def _lifted(
    value: Any, words: Sequence[Sequence[str]] | None
) -> tuple[Any, list[Term]]:
    """A matrix with `plus` in place of its cells that are objects, and what these add for a case;
    its rows and columns are called by `words`, or by number.
    """
    rows = value if isinstance(value, list) else []
    case_cells = [
        (k, a)
        for k, row in enumerate(rows)
        if type(row) is list
        for a, cell in enumerate(row)
        if type(cell) is dict
    ]
    if not case_cells:
        return value, []
    numbers = [row.copy() if type(row) is list else row for row in rows]
    terms = []
    for k, a in case_cells:
        document = rows[k][a]
        place = pointer(k, a) if words is None else pointer(words[0][k], words[1][a])
        try:
            cell = CaseCell.model_validate(document)
        except ValidationError as error:
            raise Invalid.of(flaws_of(error.errors(), document)).under(place) from error
        numbers[k][a] = cell.plus
        terms.append(Term(k, a, cell.column, cell.times, place))
    return numbers, terms


def matrices_of_cases(
    cells: Sequence[Sequence[Any]] | None, n: int, columns: Columns
) -> np.ndarray | None:
    """The benefits (n, K, A) of n rows with `columns` (n,), by the `cells` of a matrix.

    None where no cell depends on a column, or without `cells`.
    Invalid where a value is missing or a benefit too large, TooLarge for too many.
    """
    stakes = cells and read_matrix(
        MatrixFields.model_construct(benefits=cells), range(len(cells))
    )
    cases = stakes.cases if stakes else None
    if cases is None:
        return None
    values = cases.values(NO_FEATURES, np.empty((n, 0)), columns)
    return np.ascontiguousarray(
        cases.at(values, lambda i, name: pointer("data", i, name))
    )


def _order(B: np.ndarray) -> list[int]:
    """The actions of a matrix in words, in the order of the classes for which they are the best."""
    first = B if B.ndim == 2 else B[0]
    best = first == first.max(axis=1, keepdims=True)
    order: list[int] = np.argsort(
        np.where(best.any(axis=0), best.argmax(axis=0), len(first)), kind="stable"
    ).tolist()
    return order


def refuse_actions(fields: MatrixFields) -> None:
    """Invalid where there are actions, for a request without a matrix."""
    if fields.actions is not None:
        raise Invalid.at(
            "/actions", "actions are the columns of benefits; send benefits, too"
        )


def needed_matrix(
    fields: MatrixFields, classes: Sequence[object], *, square: bool = False
) -> Stakes:
    """`read_matrix`, where a request without a matrix is Invalid."""
    stakes = read_matrix(fields, classes, square=square)
    if stakes is None:
        raise Invalid.at("/benefits", MATRIX_REQUIRED)
    return stakes


def check_distinct(actions: Sequence[str]) -> None:
    """Invalid at /actions where a name occurs twice."""
    if len(set(actions)) < len(actions):
        raise Invalid.at("/actions", "two actions have the same name")


def check_few_actions(fields: MatrixFields, count: int) -> None:
    """Invalid where the matrix has more actions than saved matrices and questions may have."""
    if count > _MAX_ACTIONS:
        place = fields.place if fields.actions is None else "/actions"
        raise Invalid.at(
            place,
            f"there are {count:,} actions; at most {_MAX_ACTIONS:,} are supported",
        )


def _from_words(
    value: Any, classes: Sequence[str], actions: Sequence[str] | None
) -> tuple[list[Any], Sequence[str]]:
    """The matrix, or matrices, in lists, and the names of the columns: `actions`, else the classes,
    else as the longest row has them.
    """
    matrices = [value] if isinstance(value, dict) else value
    if not set(classes).issuperset(matrices[0]):
        matrices = list(map(with_normal_names, matrices))
        value = matrices[0] if isinstance(value, dict) else matrices
    rows = [row for row in matrices[0].values() if isinstance(row, dict)]
    row_actions = list(max(rows, key=len, default=()))
    columns = actions or (classes if set(row_actions) == set(classes) else row_actions)
    if not columns:
        raise Invalid.at("", "the matrix names no action")
    reject(_flaws(value, classes, columns))
    longest = max(map(len, columns))
    if actions is None and longest > MAX_NAME:
        raise Invalid.at(
            "",
            f"an action's name has {longest:,} characters; at most {MAX_NAME} are supported",
        )
    numbers = [
        [[matrix[name][action] for action in columns] for name in classes]
        for matrix in matrices
    ]
    return numbers[0] if isinstance(value, dict) else numbers, columns


def _flaws(
    value: Any, classes: Sequence[str], actions: Sequence[str]
) -> Iterator[Flaw]:
    known_classes = frozenset(classes)
    known_actions = frozenset(actions)
    is_one = isinstance(
        value, dict
    )  # cells of one matrix for all rows may be objects, too
    matrices = (
        [("", value)]
        if is_one
        else [(pointer(i), item) for i, item in enumerate(value)]
    )
    for at, matrix in matrices:
        if not isinstance(matrix, dict):
            yield Flaw(
                at, "all matrices have one form: objects by class and action, or lists"
            )
            continue
        yield from _misnamed(at, "class", matrix, classes, known_classes)
        for name, row in matrix.items():
            if not isinstance(row, dict):
                yield Flaw(
                    at + pointer(name),
                    "a row is an object with a number for each action",
                )
            elif name in known_classes:
                yield from _misnamed(
                    at + pointer(name), "action", row, actions, known_actions
                )
                numbers = {
                    a: cell
                    for a, cell in row.items()
                    if a in known_actions and not (is_one and type(cell) is dict)
                }
                cells = (
                    (action, refused_benefit(cell)) for action, cell in numbers.items()
                )
                yield from (
                    Flaw(at + pointer(name, action), message)
                    for action, message in cells
                    if message
                )


def _misnamed(
    at: str,
    noun: str,
    entries: Mapping[str, Any],
    names: Sequence[str],
    known: frozenset[str],
) -> Iterator[Flaw]:
    """A flaw for each entry that is not known, and for each name that is missing."""
    strange = (name for name in entries if name not in known)
    yield from (unknown_at(at + pointer(name), noun, name, names) for name in strange)
    yield from (
        Flaw(at, f"{noun} {name!r} is missing") for name in names if name not in entries
    )


def best_in_training(model: Loaded) -> Sequence[object]:
    """For each class the best action of the matrix that the model was trained with, if any."""
    if model.card.benefits is None:
        return ()
    B = np.array(model.card.benefits)
    names = model.card.actions or (model.classes if B.shape[0] == B.shape[1] else ())
    return [names[a] for a in B.argmax(axis=1)] if names else []
