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
from app.decisions.benefit import as_benefits, like_costs, refused_benefit
from app.decisions.case_benefits import CaseBenefits, Columns, Term
from app.errors import Conflict, Flaw, Invalid, NotFound, below, flaws_of, pointer, reject, unknown
from app.features import NUMBERS, Schema
from app.registry.loaded import Loaded
from app.registry.saved_matrices import Saved, unsaved
from app.text import MAX_NAME
from app.usecases.fields import COSTS, CaseCell, Matrix, NamedMatrix, Names, WireModel
from app.usecases.ports import Ports

_MAX_ACTIONS = 1_000  # where the answer, or the work for it, has no other bound
_MOST_BYTES = 256_000  # of a saved matrix: one of 100 classes and 100 actions with short names
_NESTED = (dict, list)


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
        description="names of the columns; without them `/acquire` and its simulation take these for the classes",
    )
    saved: ClassVar[str | None] = None
    """The version of the saved matrix that the request named, once `with_saved` has put it in place of its name."""

    @property
    def stated(self) -> bool:
        """Whether there is a matrix."""
        return self.benefits is not None or self.cost_matrix is not None

    @cached_property
    def case_columns(self) -> frozenset[str]:
        """The columns that cells of the matrix name, before it is checked."""
        cells = _objects(self.benefits if self.cost_matrix is None else self.cost_matrix).values()
        return frozenset(name for cell in cells if isinstance(name := cell.get("column"), str))

    @property
    def place(self) -> str:
        """The field that has the matrix."""
        return "/benefits" if self.cost_matrix is None else "/cost_matrix"

    def width(self, default: int = 0) -> int:
        """How many actions there are, before the matrix is checked; `default` where nothing says so.

        Without names it is the length of the first row, of the first matrix.
        """
        level = self.benefits if self.cost_matrix is None else self.cost_matrix
        if self.actions is not None:
            return len(self.actions)
        if not isinstance(level, _NESTED):
            return default
        first = _first(level)
        if isinstance(level, list) and (isinstance(first, dict) or isinstance(_first(first), list)):
            level, first = first, _first(first)  # one matrix per instance
        return max(len(first if isinstance(first, _NESTED) else level), default)


def columns_beside(sent: Mapping[str, Any], n: int, used: Collection[str], known: Collection[str]) -> Columns:
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


def _entries(level: Any) -> Iterable[tuple[Any, Any]]:
    """Those of a list or an object, after their position or name."""
    return level.items() if isinstance(level, dict) else enumerate(level if isinstance(level, list) else ())


def _first(level: Any) -> Any:
    return next((entry for _, entry in _entries(level)), None)


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
    named: bool = False,
    cases: bool = False,
) -> Stakes | None:
    """The matrix that a request states in one of the fields `benefits` and `cost_matrix`; None where it has neither.

    It has a row per class and a column per action: lists in the order of `classes` and of the actions, or an object
    `{class: {action: number}}`, complete and in any order. Costs are negated. `n_instances` allows a list of matrices
    instead, one per instance. With `square` the columns are the classes; with `named` they are the classes unless the
    matrix or `actions` names them. `cases` allows cells `{"column": …}`. Raises Invalid with the place of each flaw.
    O(size).
    """
    if sent.benefits is not None and sent.cost_matrix is not None:
        raise Invalid.at("/cost_matrix", "send benefits or cost_matrix, not both")
    costs = sent.cost_matrix is not None
    actions: Sequence[str] | None = sent.actions
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
        value, cells = _lifted(value)
        if cells and not cases:
            raise Invalid.at(pointer(*next(iter(cells))), "here a benefit is a number, as there are no cases")
        if _in_words(value):
            B, actions = _from_words(value, names, names if square else actions, n_instances)
            if named and actions == names and sent.actions is None:
                actions = None
        elif actions is not None:
            B = as_benefits(value, len(names), n_instances, len(actions))
        else:
            B = _unnamed(value, len(names), n_instances, square=square, named=named)
    doubts = [] if costs or cells or actions in (None, names) else like_costs(B)  # else names tell
    B = 0.0 - B if costs else B
    if actions not in (None, names, sent.actions):
        B, actions = _ordered(B, actions)
    terms = _terms(cells, names, actions or names, -1.0 if costs else 1.0, sent.place)
    return Stakes(B, actions, doubts, CaseBenefits(B, terms) if terms else None)


def _objects(value: Any) -> dict[tuple[Any, Any], dict[str, Any]]:
    """The cells of a matrix that are objects, by their place in it."""
    if isinstance(_first(_first(value)), list):  # one matrix per instance
        return {}
    rows = [(i, row) for i, row in _entries(value) if type(row) is type(value)]
    return {(i, a): cell for i, row in rows for a, cell in _entries(row) if type(cell) is dict}


def _lifted(value: Any) -> tuple[Any, dict[tuple[Any, Any], CaseCell]]:
    """A matrix with `plus` in place of its cells that are objects, and these by their place in it."""
    if not (found := _objects(value)):
        return value, {}
    cells, numbers = {}, value.copy()
    for i in {i for i, _ in found}:
        numbers[i] = value[i].copy()
    for (i, a), sent in found.items():
        try:
            cells[i, a] = CaseCell.model_validate(sent)
        except ValidationError as error:
            raise Invalid.of(flaws_of(error.errors(), sent)).under(pointer(i, a)) from error
        numbers[i][a] = cells[i, a].plus
    return numbers, cells


def _terms(
    cells: Mapping[tuple[Any, Any], CaseCell], names: Sequence[str], actions: Sequence[str], sign: float, under: str
) -> list[Term]:
    """The terms of cells that are in words or by position."""
    rows, columns = ({name: j for j, name in enumerate(each)} for each in (names, actions))
    return [
        Term(rows.get(i, i), columns.get(a, a), cell.column, sign * cell.times + 0.0, under + pointer(i, a))
        for (i, a), cell in cells.items()
    ]


def own_matrices(
    cells: Sequence[Sequence[Any]] | None, schema: Schema, X: np.ndarray, others: Columns
) -> tuple[np.ndarray, Columns] | None:
    """The benefits (n, K, A) of rows X (n, m) with `others`, of a matrix with `cells` by position, and the columns that
    these name; None without cells. Invalid where a value is missing or a benefit too large, TooLarge for too many.
    """
    stakes = cells and read_matrix(MatrixFields.model_construct(benefits=cells), range(len(cells)), cases=True)
    if not stakes or (cases := stakes.cases) is None:
        return None
    values = cases.values(schema, X, others)
    B = np.ascontiguousarray(cases.at(values, lambda i, name: pointer("data", i, name)))
    return B, dict(zip(cases.columns, values.T, strict=True))


def _ordered(B: np.ndarray, actions: Sequence[str]) -> tuple[np.ndarray, Sequence[str]]:
    """Actions of a matrix in words, which have no order, in that of the classes for which they are the best."""
    first = B if B.ndim == 2 else B[0]
    best = first == first.max(axis=1, keepdims=True)
    order = np.argsort(np.where(best.any(axis=0), best.argmax(axis=0), len(first)), kind="stable")
    return np.ascontiguousarray(B[..., order]), [actions[a] for a in order]


def refuse_actions(sent: MatrixFields) -> None:
    """Invalid where there are actions, for a request without a matrix."""
    if sent.actions is not None:
        raise Invalid.at("/actions", "actions are the columns of benefits; send benefits, too")


def needed_matrix(
    sent: MatrixFields, classes: Sequence[object], *, square: bool = False, named: bool = False, cases: bool = False
) -> Stakes:
    """`read_matrix`, where a request without a matrix is Invalid."""
    stakes = read_matrix(sent, classes, square=square, named=named, cases=cases)
    if stakes is None:
        raise Invalid.at("/benefits", "send the matrix as 'benefits' or 'cost_matrix'")
    return stakes


def check_distinct(actions: Sequence[str]) -> None:
    """Invalid at /actions where a name occurs twice."""
    if len(set(actions)) < len(actions):
        raise Invalid.at("/actions", "two actions have the same name")


def check_few_actions(sent: MatrixFields, count: int) -> None:
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
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _from_words(
    value: Any, classes: Sequence[str], actions: Sequence[str] | None, n_instances: int | None
) -> tuple[np.ndarray, Sequence[str] | None]:
    """Benefits, and the names of the columns: `actions`, else the classes, else as the longest row has them."""
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
    given = numbers[0] if isinstance(value, dict) else numbers
    return as_benefits(given, len(classes), n_instances, len(columns)), columns


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
                cells = ((action, refused_benefit(cell)) for action, cell in row.items() if action in known[1])
                yield from (Flaw(at + pointer(name, action), message) for action, message in cells if message)


def _misnamed(
    at: str, what: str, entries: Mapping[str, Any], names: Sequence[str], known: frozenset[str]
) -> Iterator[Flaw]:
    """What is not known, and what is missing."""
    strange = (name for name in entries if name not in known)
    yield from (Flaw(at + pointer(name), unknown(what, name, names)) for name in strange)
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
    words, actions = saved.stated
    stated: dict[str, Any] = {"benefits": words, "actions": actions, "saved": saved.reference}
    if b'"column"' not in saved.content:  # to look at each cell would take longer
        stated["case_columns"] = frozenset()
    return sent.model_copy(update=stated)


def _check_classes(saved: Saved, classes: Sequence[str]) -> None:
    own, of = set(classes), saved.stated[0]
    missing = [name for name in classes if name not in of]
    strange = [name for name in of if name not in own]
    if missing or strange:
        what = f"has no class {missing[0]!r}" if missing else f"has the class {strange[0]!r}"
        which = "which this version of the model has" if missing else "which this version of the model does not have"
        fix = f"save the matrix of its classes with PUT /models/{saved.model}/matrices/{saved.matrix}"
        raise Invalid.at("/benefits", f"the saved matrix {saved.reference!r} {what}, {which}; {fix}")


# Those that are saved for a model


def save(ports: Ports, model: str, matrix: str, sent: MatrixFields, *, by: Caller) -> Saved:
    """Save the matrix as a new version, or the newest one where it is equal.

    NotFound for an unknown model, Invalid with the place where the matrix does not fit the classes of its latest
    version, Conflict where there is no room, or the model has no versions.
    """
    versions = ports.registry.index.model(model).versions
    if not versions:
        raise Conflict(f"{model!r} has no versions, and so no classes for a matrix")
    card = ports.registry.index.card(model, versions[0].version)
    if card.classes is None or card.classes == card.labels:
        raise Invalid.at("", f"{model!r} decides by no matrix: it predicts numbers, or several labels")
    content = _content(sent, card.classes)

    def also(connection: Connection, saved: Saved) -> None:
        ports.audit.entry(by, "matrix.save", f"{model}/{matrix}", version=saved.version)(connection)

    return ports.matrices.save(model, matrix, content, by.name, also)


def _content(sent: MatrixFields, classes: Sequence[object]) -> bytes:
    """The matrix as JSON; Invalid with the place where it is larger than a decision needs.

    A request that names it is short, and the answer has each action's name, and its expected benefit for each row.
    """
    words, actions = _stated(sent, classes)
    check_few_actions(sent, len(next(iter(words.values()))))
    content = orjson.dumps((words, actions))
    if len(content) > _MOST_BYTES:
        what = f"in words the matrix takes {len(content):,} bytes as JSON; a saved one may take {_MOST_BYTES:,}"
        raise Invalid.at(sent.place, f"{what}: shorten the names of its actions, or send it with each request")
    return content


def _stated(sent: MatrixFields, classes: Sequence[object]) -> tuple[dict[str, dict[str, Any]], Sequence[str] | None]:
    """The matrix as `{class: {action: cell}}`, the actions in the order of the request, and these where it has them.

    Without them the columns of words have an order only for a version's classes.
    """
    stakes = needed_matrix(sent, classes, named=True, cases=True)
    names = [str(name) for name in classes]
    columns = list(stakes.actions or names)
    cells = stakes.benefits.tolist() if stakes.cases is None else stakes.cases.cells()
    value = sent.benefits if sent.cost_matrix is None else sent.cost_matrix
    order = list(next(iter(value.values()))) if isinstance(value, dict) and sent.actions is None else columns
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    words = {name: {action: row[action] for action in order} for name, row in zip(names, rows, strict=True)}
    return words, sent.actions


def newest(ports: Ports, model: str) -> list[tuple[Saved, int]]:
    """The newest version of each matrix, by name, and how many there are."""
    known = ports.matrices.read(model)
    counts = Counter(saved.matrix for reference, saved in known.items() if reference == saved.reference)
    return [(known[name], counts[name]) for name in sorted(counts)]


def describe(ports: Ports, model: str, reference: str) -> tuple[Saved, list[int]]:
    """The matrix that `name` (the newest) or `name:2` means, and the numbers of all its versions; else NotFound."""
    known = ports.matrices.read(model)
    if reference not in known:
        raise NotFound(unsaved(model, reference, known))
    saved = known[reference]
    own = (each for key, each in known.items() if key == each.reference and each.matrix == saved.matrix)
    return saved, [each.version for each in own]


def delete(ports: Ports, model: str, matrix: str, *, by: Caller) -> None:
    """All versions of it; NotFound where there is none."""
    ports.matrices.delete(model, matrix, ports.audit.entry(by, "matrix.delete", f"{model}/{matrix}"))
