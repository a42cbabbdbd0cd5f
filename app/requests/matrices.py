"""The benefit matrix of a request: in numbers, in words or by the name of a saved one; benefits or costs.

And those that are saved for a model, by name and version.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import orjson
from pydantic import Field, ValidationError
from sqlalchemy import Connection

from app.access.caller import Caller
from app.errors import Conflict, NotFound
from app.registry.loaded import Loaded
from app.registry.saved_matrices import Saved, unsaved
from app.requests.fields import COSTS, CaseCell, Matrix, NamedMatrix, Names, WireModel
from app.stores import Stores
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

_MAX_ACTIONS = 1_000  # where the answer, or the work for it, has no other bound
_MOST_BYTES = 256_000  # of a saved matrix: one of 100 classes and 100 actions with short names
_NEEDED = "send the matrix as 'benefits' or 'cost_matrix'"


class MatrixFields(WireModel):
    """A request with a benefit matrix, in `benefits` or `cost_matrix`, and the `actions` of its columns."""

    benefits: Matrix | None = Field(
        default=None,
        description="a row per actual class, a column per action",
        examples=[{"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}],
    )
    cost_matrix: Matrix | None = Field(default=None, description=COSTS)
    actions: Annotated[Names, Field(min_length=1)] | None = Field(
        default=None,
        description="names of the columns; without them, in decisions of a model, the columns are the classes",
    )
    saved: ClassVar[str | None] = None
    """The version of the saved matrix that the request named, once `with_saved` has put it in place of its name."""

    @property
    def stated(self) -> bool:
        """Whether there is a matrix."""
        return self.benefits is not None or self.cost_matrix is not None

    @property
    def matrix(self) -> Any:
        """What was sent as `benefits` or `cost_matrix`, before it is checked."""
        return self.benefits if self.cost_matrix is None else self.cost_matrix

    @cached_property
    def case_columns(self) -> frozenset[str]:
        """The columns that cells of the matrix name, before it is checked."""
        if isinstance(_first(_first(self.matrix)), list):  # one matrix per instance
            return frozenset()
        cells = (
            cell for row in _entries(self.matrix) for cell in _entries(row) if type(cell) is dict
        )
        return frozenset(name for cell in cells if isinstance(name := cell.get("column"), str))

    @property
    def place(self) -> str:
        """The field that has the matrix."""
        return "/benefits" if self.cost_matrix is None else "/cost_matrix"

    def width(self, default: int = 0) -> int:
        """How many actions there are, before the matrix is checked; `default` where nothing says so.

        Without names it is the length of the first row, of the first matrix.
        """
        if self.actions is not None:
            return len(self.actions)
        first = _first(self.matrix)
        if isinstance(self.matrix, list) and (
            isinstance(first, dict) or isinstance(_first(first), list)
        ):
            first = _first(first)  # one matrix per instance
        return max(len(first) if isinstance(first, list | dict) else 0, default)


def columns_beside(
    sent: Mapping[str, Any], n: int, used: Collection[str], known: Collection[str]
) -> Columns:
    """The columns that a request sends beside n rows, each `used` by a cell; Invalid where the rows have it already."""
    for name, values in sent.items():
        with below(pointer("columns", name)):
            if name not in used:
                raise Invalid.at("", f"cells name other columns: {unknown('column', name, used)}")
            if name in known:
                raise Invalid.at("", f"the instances have {name!r}, too")
            if not isinstance(values, list | np.ndarray) or len(values) != n:
                raise Invalid.at("", f"a column is a list of {n:,} numbers, one for each instance")
            if isinstance(values, list) and not NUMBERS.issuperset(map(type, values)):
                odd = (i for i, value in enumerate(values) if type(value) not in NUMBERS)
                raise Invalid.at(pointer(next(odd)), f"{name!r} takes a number or null")
    return {name: np.array(values, dtype=np.float64) for name, values in sent.items()}


def _entries(level: Any) -> Iterable[Any]:
    """Those of a list or an object."""
    return level.values() if isinstance(level, dict) else level if isinstance(level, list) else ()


def _first(level: Any) -> Any:
    return next(iter(_entries(level)), None)


class NamedMatrixFields(MatrixFields):
    """A request to a model, which may name one of its saved matrices."""

    benefits: NamedMatrix | None = Field(
        default=None,
        description="a row per actual class, a column per action; or the name of a saved matrix",
        examples=[{"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}],
    )


class Stakes(NamedTuple):
    """Benefits, (K, A) or (n, K, A), the names of the A columns, None where they were not named, and a warning where
    benefits look as costs do. Where cells depend on the case, the benefits are those of `cases` without these columns.
    """

    benefits: np.ndarray
    actions: Sequence[str] | None
    like_costs: Sequence[str] = ()
    cases: CaseBenefits | None = None


def read_matrix(
    sent: MatrixFields,
    classes: Sequence[object],
    *,
    n_instances: int | None = None,
    square: bool = False,
    cases: bool = True,
) -> Stakes | None:
    """The matrix that a request states in one of the fields `benefits` and `cost_matrix`; None where it has neither.

    It has a row per class and a column per action: lists in the order of `classes` and of the actions, or an object
    `{class: {action: number}}`, complete and in any order. Costs are negated. `n_instances` allows a list of matrices
    instead, one per instance. With `square` the columns are the classes; without `cases` no cell is `{"column": …}`.
    Raises Invalid with the place of each flaw. O(size).
    """
    if sent.benefits is not None and sent.cost_matrix is not None:
        raise Invalid.at("/cost_matrix", "send benefits or cost_matrix, not both")
    costs, value = sent.cost_matrix is not None, sent.matrix
    if value is None:
        return None
    if isinstance(value, str):
        raise Invalid.at(
            sent.place,
            f"{value[:MAX_NAME]!r} is no matrix; send the matrix itself: only requests to a model can name a saved one",
        )
    check_distinct(sent.actions or ())
    names, words = [str(name) for name in classes], None
    actions: Sequence[str] | None = sent.actions
    with below(sent.place):
        if isinstance(value, dict) or (
            isinstance(value, list) and value and isinstance(value[0], dict)
        ):
            value, actions = _from_words(value, names, names if square else actions)
            words = names, actions
        numbers, terms = _lifted(value, words)
        if terms and not cases:
            raise Invalid.at(terms[0].place, "here a benefit is a number, as there are no cases")
        n_actions = len(actions or names) if square or actions is not None else None
        B = as_benefits(numbers, len(names), n_instances, n_actions)
    B = 0.0 - B if costs else B
    doubts = [] if terms else _doubtful_signs(B, costs=costs, named=actions not in (None, names))
    order = list(range(B.shape[-1]))
    if actions not in (None, names, sent.actions):
        order = _order(B)
        B, actions = np.ascontiguousarray(B[..., order]), [actions[a] for a in order]
    if not terms:
        return Stakes(B, actions, doubts)
    sign, under = -1.0 if costs else 1.0, sent.place
    at = {a: number for number, a in enumerate(order)}
    own = [
        Term(k, at[a], name, sign * times + 0.0, under + place)
        for k, a, name, times, place in terms
    ]
    return Stakes(B, actions, doubts, CaseBenefits(B, own))


def _doubtful_signs(B: np.ndarray, *, costs: bool, named: bool) -> list[str]:
    """A warning where benefits B, of which `costs` were the negatives, look like the opposite; where
    actions are not `named` apart from the classes, their names say more.
    """
    if not costs:
        return like_costs(B) if named else []
    if (B < 0).any() or not B.any():
        return []
    return [
        "no number of 'cost_matrix' is positive: a negative cost is a gain; are these benefits?"
    ]


def named_matrix(
    sent: MatrixFields,
    classes: Sequence[int | str],
    n_instances: int | None = None,
    before: Sequence[object] = (),
) -> Prepared | None:
    """`read_matrix` with a name for each column: the classes unless the matrix or `actions` names them; `before` are
    the actions that were best in training.
    """
    stakes = read_matrix(sent, classes, n_instances=n_instances)
    if stakes is None:
        return None
    B, actions, doubts, by_case = stakes
    if actions is None and B.shape[-1] != len(classes):
        raise Invalid.at(sent.place, "the columns are not the classes; name them in 'actions'")
    is_named = sent.actions is not None or actions not in (None, [str(name) for name in classes])
    return Prepared(
        B, tuple(actions or ()) if is_named else classes, is_named, classes, before, doubts, by_case
    )


def _lifted(value: Any, words: Sequence[Sequence[str]] | None) -> tuple[Any, list[Term]]:
    """A matrix with `plus` in place of its cells that are objects, and what these add for a case; its rows and columns
    are called by `words`, or by number.
    """
    rows = value if isinstance(value, list) else []
    at = [
        (k, a)
        for k, row in enumerate(rows)
        if type(row) is list
        for a, cell in enumerate(row)
        if type(cell) is dict
    ]
    if not at:
        return value, []
    numbers, terms = [row.copy() if type(row) is list else row for row in rows], []
    for k, a in at:
        sent = rows[k][a]
        place = pointer(k, a) if words is None else pointer(words[0][k], words[1][a])
        try:
            cell = CaseCell.model_validate(sent)
        except ValidationError as error:
            raise Invalid.of(flaws_of(error.errors(), sent)).under(place) from error
        numbers[k][a] = cell.plus
        terms.append(Term(k, a, cell.column, cell.times, place))
    return numbers, terms


def own_matrices(
    cells: Sequence[Sequence[Any]] | None, n: int, columns: Columns
) -> np.ndarray | None:
    """The benefits (n, K, A) of n rows with `columns` (n,), of a matrix with `cells` by position; None without cells.

    Invalid where a value is missing or a benefit too large, TooLarge for too many.
    """
    stakes = cells and read_matrix(MatrixFields.model_construct(benefits=cells), range(len(cells)))
    if not stakes or (cases := stakes.cases) is None:
        return None
    values = cases.values(NO_FEATURES, np.empty((n, 0)), columns)
    return np.ascontiguousarray(cases.at(values, lambda i, name: pointer("data", i, name)))


def _order(B: np.ndarray) -> list[int]:
    """The actions of a matrix in words, which have no order, in that of the classes for which they are the best."""
    first = B if B.ndim == 2 else B[0]
    best = first == first.max(axis=1, keepdims=True)
    found: list[int] = np.argsort(
        np.where(best.any(axis=0), best.argmax(axis=0), len(first)), kind="stable"
    ).tolist()
    return found


def refuse_actions(sent: MatrixFields) -> None:
    """Invalid where there are actions, for a request without a matrix."""
    if sent.actions is not None:
        raise Invalid.at("/actions", "actions are the columns of benefits; send benefits, too")


def needed_matrix(sent: MatrixFields, classes: Sequence[object], *, square: bool = False) -> Stakes:
    """`read_matrix`, where a request without a matrix is Invalid."""
    stakes = read_matrix(sent, classes, square=square)
    if stakes is None:
        raise Invalid.at("/benefits", _NEEDED)
    return stakes


def check_distinct(actions: Sequence[str]) -> None:
    """Invalid at /actions where a name occurs twice."""
    if len(set(actions)) < len(actions):
        raise Invalid.at("/actions", "two actions have the same name")


def check_few_actions(sent: MatrixFields, count: int) -> None:
    """Invalid where the matrix has more actions than saved matrices and questions may have."""
    if count > _MAX_ACTIONS:
        place = sent.place if sent.actions is None else "/actions"
        raise Invalid.at(
            place, f"there are {count:,} actions; at most {_MAX_ACTIONS:,} are supported"
        )


def _from_words(
    value: Any, classes: Sequence[str], actions: Sequence[str] | None
) -> tuple[list[Any], Sequence[str]]:
    """The matrix, or matrices, in lists, and the names of the columns: `actions`, else the classes, else as the longest
    row has them.
    """
    matrices = [value] if isinstance(value, dict) else value
    if not set(classes).issuperset(matrices[0]):
        matrices = list(map(with_normal_names, matrices))
        value = matrices[0] if isinstance(value, dict) else matrices
    rows = [row for row in matrices[0].values() if isinstance(row, dict)]
    found = list(max(rows, key=len, default=()))
    columns = actions or (classes if set(found) == set(classes) else found)
    if not columns:
        raise Invalid.at("", "the matrix names no action")
    reject(_flaws(value, classes, columns))
    if actions is None and (longest := max(map(len, columns))) > MAX_NAME:
        raise Invalid.at(
            "", f"an action's name has {longest:,} characters; at most {MAX_NAME} are supported"
        )
    numbers = [
        [[matrix[name][action] for action in columns] for name in classes] for matrix in matrices
    ]
    return numbers[0] if isinstance(value, dict) else numbers, columns


def _flaws(value: Any, classes: Sequence[str], actions: Sequence[str]) -> Iterator[Flaw]:
    known = frozenset(classes), frozenset(actions)
    lone = isinstance(value, dict)  # whose cells may be objects, too
    matrices = [("", value)] if lone else [(pointer(i), each) for i, each in enumerate(value)]
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
                numbers = {
                    a: cell
                    for a, cell in row.items()
                    if a in known[1] and not (lone and type(cell) is dict)
                }
                cells = ((action, refused_benefit(cell)) for action, cell in numbers.items())
                yield from (
                    Flaw(at + pointer(name, action), message)
                    for action, message in cells
                    if message
                )


def _misnamed(
    at: str, what: str, entries: Mapping[str, Any], names: Sequence[str], known: frozenset[str]
) -> Iterator[Flaw]:
    """What is not known, and what is missing."""
    strange = (name for name in entries if name not in known)
    yield from (unknown_at(at + pointer(name), what, name, names) for name in strange)
    yield from (Flaw(at, f"{what} {name!r} is missing") for name in names if name not in entries)


def best_in_training(model: Loaded) -> Sequence[object]:
    """For each class the action that was best in the matrix that the model was trained with; empty without one."""
    if model.card.benefits is None:
        return ()
    B = np.array(model.card.benefits)
    names = model.card.actions or (model.classes if B.shape[0] == B.shape[1] else ())
    return [names[a] for a in B.argmax(axis=1)] if names else []


_Sent = TypeVar("_Sent", bound=MatrixFields)


def with_saved(stores: Stores, sent: _Sent, model: str, classes: Sequence[object] | None) -> _Sent:
    """The request with the saved matrix that it names by text; the request itself where it names none.

    No input or output. Invalid with the place where there is no such matrix, where it has other `classes` than the
    model's version, and where the request says more about it. Models without `classes` refuse all matrices.
    """
    reference = sent.benefits
    if not isinstance(reference, str) or not classes:
        return sent
    if sent.actions is not None:
        raise Invalid.at("/actions", "a saved matrix has its own actions; leave out 'actions'")
    known = stores.matrices.of(model)
    if reference not in known:
        raise Invalid.at("/benefits", unsaved(model, reference, known))
    saved = known[reference]
    words, actions = saved.stated
    names = [str(name) for name in classes]
    if different := [name for name in (*names, *words) if name not in words or name not in names]:
        what = (
            f"the saved matrix {saved.reference!r} and this version of the model "
            f"differ in the class {different[0]!r}"
        )
        fix = (
            f"save the matrix of its classes with PUT /models/{saved.model}/matrices/{saved.matrix}"
        )
        raise Invalid.at("/benefits", f"{what}; {fix}")
    stated: dict[str, Any] = {"benefits": words, "actions": actions, "saved": saved.reference}
    if b'"column"' not in saved.content:  # to look at each cell would take longer
        stated["case_columns"] = frozenset()
    return sent.model_copy(update=stated)


# Those that are saved for a model


def save(stores: Stores, model: str, matrix: str, sent: MatrixFields, *, by: Caller) -> Saved:
    """Save the matrix as a new version, or the newest one where it is equal.

    NotFound for an unknown model, Invalid with the place where the matrix does not fit the classes of its latest
    version, Conflict where there is no room, or the model has no versions.
    """
    versions = stores.registry.index.model(model).versions
    if not versions:
        raise Conflict(f"{model!r} has no versions, and so no classes for a matrix")
    card = stores.registry.index.card(model, versions[0].version)
    if card.classes is None or card.classes == card.labels:
        raise Invalid.at(
            "", f"{model!r} decides by no matrix: it predicts numbers, or several labels"
        )
    content = _content(sent, card.classes)

    def also(connection: Connection, saved: Saved) -> None:
        stores.audit.entry(by, "matrix.save", f"{model}/{matrix}", version=saved.version)(
            connection
        )

    return stores.matrices.save(model, matrix, content, by.name, also)


def _content(sent: MatrixFields, classes: Sequence[object]) -> bytes:
    """A pair as JSON: `{class: {action: cell}}` in the order of the request, and its `actions`, or null. Without them
    the columns of words have an order only for a version's classes.

    Invalid with the place where it is larger than a decision needs. A request that names it is short, and the answer
    has each action's name, and its expected benefit for each row.
    """
    names = [str(name) for name in classes]
    if (stakes := named_matrix(sent, names)) is None:
        raise Invalid.at("/benefits", _NEEDED)
    columns = list(map(str, stakes.actions))
    check_few_actions(sent, len(columns))
    cells = stakes.benefits.tolist() if stakes.cases is None else stakes.cases.cells()
    by_words = isinstance(sent.matrix, dict) and sent.actions is None
    order = list(next(iter(sent.matrix.values()))) if by_words else columns
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    words = {
        name: {action: row[action] for action in order}
        for name, row in zip(names, rows, strict=True)
    }
    content = orjson.dumps((words, sent.actions))
    if len(content) > _MOST_BYTES:
        what = f"in words the matrix takes {len(content):,} bytes as JSON; a saved one may take {_MOST_BYTES:,}"
        raise Invalid.at(
            sent.place, f"{what}: shorten the names of its actions, or send it with each request"
        )
    return content


def newest(stores: Stores, model: str) -> list[tuple[Saved, int]]:
    """The newest version of each matrix, by name, and how many there are."""
    known = stores.matrices.read(model)
    counts = Counter(
        saved.matrix for reference, saved in known.items() if reference == saved.reference
    )
    return [(known[name], counts[name]) for name in sorted(counts)]


def describe(stores: Stores, model: str, reference: str) -> tuple[Saved, list[int]]:
    """The matrix that `name` (the newest) or `name:2` means, and the numbers of all its versions; else NotFound."""
    known = stores.matrices.read(model)
    if reference not in known:
        raise NotFound(unsaved(model, reference, known))
    saved = known[reference]
    own = (
        each for key, each in known.items() if key == each.reference and each.matrix == saved.matrix
    )
    return saved, [each.version for each in own]


def delete(stores: Stores, model: str, matrix: str, *, by: Caller) -> None:
    """All versions of it; NotFound where there is none."""
    stores.matrices.delete(
        model, matrix, stores.audit.entry(by, "matrix.delete", f"{model}/{matrix}")
    )
