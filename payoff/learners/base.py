"""Shared by all learners: scikit-learn's conventions, checks, calibration by cross-fitting, and
fast prediction.

A learner's own part is `_fit_raw`, which returns a small picklable scorer; the rest is here. The
modules of learners load neither scikit-learn nor the compiler, so that the catalogue, and a service
that only predicts, do without: what needs these to train is in modules of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, dataclass_transform

import numpy as np
from joblib import Parallel, delayed

from payoff.decisions.calibration import Calibrator, are_constant, is_flat
from payoff.decisions.explanations import Contributions
from payoff.decisions.folds import UNJUDGED, stratified_folds
from payoff.decisions.quantities import Distribution
from payoff.errors import Invalid, pointer
from payoff.learners import loading
from payoff.learners.unseen import best_calibration
from payoff.progress import part, report
from payoff.stored import Stored

if TYPE_CHECKING:  # see above
    from sklearn.utils import Tags

ALL = -2
"""The number of a fold without rows: what is without it has all of them."""
SINGLE = float(np.finfo(np.float32).max)
"""The largest number that trees which compare in single precision take."""
_FOLDS = 5


class Dealt(NamedTuple):
    """Rows (n, m), class codes (n,), positive weights (n,), and the fold 0, 1, … of each row (n,)
    int8.

    A row of fold `UNJUDGED` (-1) is in no fold: every model learns from it.
    """

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    fold: np.ndarray

    @classmethod
    def whole(cls, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Self:
        """Rows in no fold, to fit all of them (`ALL`)."""
        return cls(X, codes, weights, np.full(len(X), UNJUDGED, dtype=np.int8))

    def without(self, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, codes and weights outside a fold; of `ALL` all of them, not copied."""
        if fold == ALL:
            return self[:3]
        inside = self.fold != fold
        return self.X[inside], self.codes[inside], self.weights[inside]

    def only(self, fold: int) -> np.ndarray:
        """The rows of a fold."""
        return self.X[self.fold == fold]


def check_sizes(X: np.ndarray, columns: Iterable[int], largest: float = SINGLE) -> None:
    """Raise Invalid at the first of these columns of X (n, m) with a number of a larger magnitude."""
    for j in columns:  # one by one: the table may be large
        if np.nanmax(np.abs(X[:, j]), initial=0.0) > largest:
            message = f"numbers must be at most {largest:.3g} in magnitude; use a larger unit"
            raise Invalid.at(pointer("columns", int(j)), message)


class Scorer(Protocol):
    """A fitted model without its calibration."""

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) for rows (n, m), NaN where missing; checks nothing."""
        ...


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Dataclass(Stored):
    """Its subclasses are dataclasses."""

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, eq=False)(cls)


class Learner(Dataclass):
    """Base of the learners. A subclass annotates its parameters (see `parameters`) and has
    `_fit_raw`.

    It follows scikit-learn's conventions (https://scikit-learn.org/stable/developers/develop.html)
    without its base class: a dataclass whose fields are its parameters, which `__init__` only
    stores.

    The first paragraph of its docstring is what the API says about it. `calibration`: `isotonic` or
    `sigmoid` curves on cross-fitted probabilities, `none`, or `auto`: the best of them by
    `best_calibration`. `categorical_features`: the columns that hold category codes 0, 1, …; None
    is none. `random_state` decides the folds, and what the subclass draws.
    Fitted: `classes_`, `model_` (a Scorer), `calibrator_` (or None), `calibration_` (the method
    used).
    """

    name: ClassVar[str] = ""
    """Its kind in requests."""
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    """What it can predict; of several, a parameter `task` chooses."""
    labels: ClassVar[str] = "one"
    """Whether it predicts `one` label, which is a class, or `several`, each of which applies or
    not.
    """
    needs_benefits: ClassVar[bool] = False
    """Whether requests must have a benefit matrix."""
    any_actions: ClassVar[bool] = False
    """Whether the columns of a benefit matrix may be any actions, and not only the classes."""
    by_case: ClassVar[bool] = False
    """Whether the benefit matrix may be one for each row that `fit` gets."""
    asks: ClassVar[bool] = False
    """Whether its models, or some of them, answer `/acquire`."""
    _fewest: ClassVar[int] = 20
    """Rows outside of the most common class from which `auto` calibrates."""

    calibration = "none"  # of learners that take no other
    categorical_features: Sequence[int] | None = None
    random_state: int | np.random.RandomState | None = None

    classes_: np.ndarray = field(init=False, repr=False)
    n_features_in_: int = field(init=False, repr=False)
    model_: Any = field(init=False, repr=False)
    calibrator_: Calibrator | None = field(init=False, repr=False)
    calibration_: str = field(init=False, repr=False)

    def get_params(self, **_: bool) -> dict[str, Any]:
        """The parameters by name; also where scikit-learn asks for `deep` ones."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; ValueError for an unknown one."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def score(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
        """The share of rows (n, m) whose prediction is y, or of numbers R squared; weighted by (n,)
        where given.
        """
        score = loading.scikit.r2_score if self.regresses else loading.scikit.accuracy_score
        return float(score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        return loading.scikit.tags(several=self.labels == "several", numbers=self.regresses)

    @property
    def regresses(self) -> bool:
        """Whether it predicts a number, and not a class."""
        return getattr(self, "task", "") == "regression"

    @property
    def asker(self) -> Learner:
        """The fitted learner whose model answers `/acquire`: this one, or the one that it chose."""
        return self

    @property
    def acquires(self) -> bool:
        """Whether the fitted model answers `/acquire`."""
        return self.asks and hasattr(self.model_, "step")

    def findings(self, _names: Sequence[str]) -> dict[str, Any]:
        """What the fit found, for the card, ready for JSON; the names are those of the features."""
        return {}

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Scorer:
        """A model of rows (n, m), true classes 0…K-1 (each occurs) and positive weights; may report
        progress.
        """
        raise NotImplementedError

    def _check(self) -> None:
        """Raise Invalid for parameters that do not fit together, or the data (`classes_`,
        `n_features_in_`).
        """

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        """Decide what all fits of the folds share; arguments as for `_fit_raw`."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit on rows (n, m), NaN where missing, and labels (n,); weights (n,) >= 0 count as
        repeated rows do.

        The ranges of parameters are checked in requests, not here. Raises Invalid for fewer than
        two classes. Time: one raw fit, and up to five more on four fifths of the rows where the
        probabilities are calibrated.
        """
        form = {"multi_output": self.labels == "several", "y_numeric": self.regresses}
        X, y, weights = loading.scikit.checked(self, X, y, sample_weight, **form)
        targets = self._targets(y)
        self._check()
        self._prepare(X, targets, weights)
        self._fit_calibrated(X, targets, weights)
        return self

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """What is learned of labels (n,): the codes of their `classes_`, which it sets, or the
        numbers.
        """
        if self.regresses:
            if not len(y):
                raise Invalid.at("", "all rows weigh nothing")
            return np.asarray(y, dtype=np.float64)
        loading.scikit.check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise Invalid.at(
                "",
                f"labels hold {len(self.classes_)} class; a classifier needs rows of two classes",
            )
        return codes

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit the model again on rows (n, m) and labels (n,) of the same classes; calibration and
        choices stay.

        For rows that were held out until the evaluation. Time: one raw fit.
        """
        targets = (
            np.asarray(y, dtype=np.float64) if self.regresses else np.searchsorted(self.classes_, y)
        )
        self.model_ = self._fit_raw(np.ascontiguousarray(X), targets, np.ones(len(X)))
        return self

    @property
    def predict_proba(self) -> Callable[[np.ndarray], np.ndarray]:
        """Posterior probabilities (n, K) in the order of `classes_`, for rows (n, m), NaN where
        missing; numbers have none.
        """
        if self.regresses:
            raise AttributeError("a regression has no predict_proba")
        return lambda X: self.posterior(self._validated(X))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable class of each row (n, m), ties to the first class; or its number."""
        rows = self._validated(X)
        return (
            self.values(rows)
            if self.regresses
            else np.asarray(self.classes_[self.posterior(rows).argmax(axis=1)])
        )

    def values(self, X: np.ndarray) -> np.ndarray:
        """`predict` of numbers (n,) without any check, for float64 C-contiguous rows (n, m)."""
        return np.asarray(self.model_.values(X))

    def distribution(self, X: np.ndarray) -> Distribution | None:
        """Of the number of each row, as for `values`; None where the learner keeps none."""
        found: Callable[..., Distribution] | None = getattr(self.model_, "distribution", None)
        return None if found is None else found(X)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """`predict_proba` without any check, for float64 C-contiguous rows (n, m)."""
        P = self.model_.posterior(X)
        return P if self.calibrator_ is None else self.calibrator_.apply(P)

    @property
    def plain_posterior(self) -> Callable[[np.ndarray], np.ndarray]:
        """`posterior` of rows of numbers that are neither missing nor huge, without the search for
        these if it can.
        """
        if type(self).posterior is not Learner.posterior:
            return self.posterior
        raw: Callable[[np.ndarray], np.ndarray] = getattr(
            self.model_, "plain_posterior", self.model_.posterior
        )
        calibrator = self.calibrator_
        return raw if calibrator is None else lambda X: calibrator.apply(raw(X))

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions | None:
        """What each feature of rows (n, m) contributes to a score of the `chosen` classes, int
        (n,); None without any.

        With two classes to one of the second class. Raises TooLarge for more rows than it takes.
        """
        explain: Callable[..., Contributions | None] | None = getattr(
            self.model_, "contributions", None
        )
        return None if explain is None else explain(X, chosen)

    def ranks(self) -> bool:
        """Whether the probabilities differ from row to row, as far as the calibration knows."""
        return not is_flat(getattr(self, "calibrator_", None))

    def _validated(self, X: np.ndarray) -> np.ndarray:
        return loading.scikit.checked_rows(self, X)

    def categorical(self) -> list[int]:
        """The columns that hold category codes."""
        return (
            [] if self.categorical_features is None else [int(j) for j in self.categorical_features]
        )

    def _numeric(self) -> list[int]:
        return sorted(set(range(self.n_features_in_)) - set(self.categorical()))

    @property
    def _resolution(self) -> float:
        """The smallest probability above 0 that the model can give; 0 where there is no such limit."""
        return 0.0

    def _method(self, counts: np.ndarray) -> str:
        """The calibration for these numbers of rows per class (K,), of `auto` the usual one until
        `_calibrated` chooses; a class's only row cannot be held out.
        """
        judged = np.where(counts > 1, counts, 0)
        if judged.sum() - judged.max() < 2:
            return "none"
        return self._automatic(counts) if self.calibration == "auto" else self.calibration

    def _automatic(self, counts: np.ndarray) -> str:
        return "sigmoid" if counts.sum() - counts.max() >= self._fewest else "none"

    def _fit_calibrated(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if self.regresses:
            self.model_ = self._fit_raw(X, codes, weights)
            return
        self.calibration_ = self._method(np.bincount(codes))
        self.calibrator_ = None
        if self.calibration_ == "none":
            with part(0.0, 1.0, "fit"):
                self.model_ = self._fit_raw(X, codes, weights)
            return
        folds = min(_FOLDS, len(X))
        fold = stratified_folds(codes, folds, self._seed()).astype(np.int8)
        P = self._fit_folds(Dealt(X, codes, weights, fold), folds)
        judged = fold != UNJUDGED
        self.calibration_, self.calibrator_ = self._calibrated(
            self.calibration_, P[judged], codes[judged], weights[judged]
        )

    def _calibrated(
        self, method: str, P: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> tuple[str, Calibrator | None]:
        """The method used, of `auto` the best, and the calibrator, of probabilities (n, K) of rows
        that their model did not see.
        """
        if self.calibration == "auto" and method != "none":
            # As of boosting on 20 rows, folds that learned nothing do not judge all rows.
            learned = not are_constant(P, _FOLDS)
            method = best_calibration(P, codes, weights, self._resolution) if learned else "none"
        if method == "none":
            return method, None
        return method, loading.scikit.fit_calibrator(method, P, codes, weights, self._resolution)

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        """Each row's probabilities (n, K) from a model that did not see it; and the model of all
        rows, which is kept.

        The fits do not depend on one another: joblib's parallel_config says where they run. Each
        array is an argument of its own: a cluster sends such an array once, and checks that its
        workers have room for it.
        """
        P = np.empty((len(dealt.X), len(self.classes_)))
        fits = Parallel(prefer="threads", return_as="generator")(
            delayed(self.seeded().fit_one)(*dealt, number, folds) for number in (*range(folds), ALL)
        )
        for number, found in enumerate(fits):
            report((number + 1) / (folds + 1), stage_name(number, folds))
            if number < folds:
                P[dealt.fold == number] = found
            else:
                self.model_ = found
        return P

    def fit_one(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        fold: np.ndarray,
        number: int,
        folds: int,
    ) -> Any:
        """Fit without fold `number`: the probabilities of its rows. Of `ALL`: the model."""
        dealt = Dealt(X, codes, weights, fold)
        place = folds if number == ALL else number
        with part(place / (folds + 1), (place + 1) / (folds + 1), stage_name(place, folds)):
            model = self._fit_raw(*dealt.without(number))
        return model if number == ALL else model.posterior(np.ascontiguousarray(dealt.only(number)))

    def _seed(self) -> int:
        """A number drawn from `random_state`."""
        return int(
            loading.scikit.check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        )

    def seeded(self) -> Self:
        """A copy that shares no state that a fit changes."""
        learner = copy.copy(self)
        if isinstance(self.random_state, np.random.RandomState):
            learner.random_state = int(self.random_state.randint(np.iinfo(np.int32).max))
        return learner


def stage_name(number: int, folds: int) -> str:
    """The name of a fit in progress reports: without each fold, and then with all rows."""
    return "final fit" if number == folds else f"calibration fold {number + 1} of {folds}"
