"""What all learners share when they are fitted: scikit-learn's conventions, checks and calibration.

A subclass adds `_fit_raw`, which returns a small picklable scorer. The modules of learners load
neither scikit-learn nor the compiler, so that the catalogue, and a service that only predicts, do
without: the code that needs these to train is in modules of its own, reached through `loading`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed

from payoff.decisions.calibration import Calibrator, are_constant
from payoff.decisions.folds import UNJUDGED, Blocks, stratified_folds
from payoff.decisions.row_weights import effective_rows
from payoff.errors import Invalid
from payoff.learners import loading
from payoff.learners.background import Background
from payoff.learners.fitted import Fitted, Scorer
from payoff.learners.monotonic import Directions, signs_of
from payoff.learners.rows import ALL, FoldedRows, stage_name, weights_or_ones
from payoff.learners.unseen import best_calibration
from payoff.progress import part, report

if TYPE_CHECKING:  # see above
    from sklearn.utils import Tags

_FOLDS = 5


class Learner(Fitted):
    """Base of the learners; a subclass annotates its parameters (see `parameters`).

    It follows scikit-learn's conventions (https://scikit-learn.org/stable/developers/develop.html)
    without its base class: a dataclass whose fields are its parameters, which `__init__` only
    stores.

    The first paragraph of its docstring is what the API says about it. `calibration`: `isotonic` or
    `sigmoid` curves on cross-fitted probabilities, `none`, or `auto`: the best of them by
    `best_calibration`. `categorical_features`: the columns that hold category codes 0, 1, …; None
    means no column. `random_state` decides the folds, and what the subclass draws.

    Fitted: `calibration_`, the method, and the attributes of `Fitted`.
    """

    name: ClassVar[str] = ""
    """The kind of learner that requests name."""
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    """What it can predict; of several, a parameter `task` chooses."""
    labels: ClassVar[str] = "one"
    """Whether it predicts `one` label, a class, or `several`, each of which applies or not; of
    labels that are the `reward` of an action it decides among actions.
    """
    needs_benefits: ClassVar[bool] = False
    """Whether requests must have a benefit matrix."""
    any_actions: ClassVar[bool] = False
    """Whether the columns of a benefit matrix may be any actions, and not only the classes."""
    by_case: ClassVar[bool] = False
    """Whether the benefit matrix may be one for each row that `fit` gets."""
    asks: ClassVar[bool] = False
    """Whether its models, or some of them, answer `/acquire`."""
    stored_format: ClassVar[int] = 2
    _knows_gaps: ClassVar[bool] = False
    """Whether its models answer rows that lack what no row in training lacked by what they know
    without it; else the answers are averaged over values of training rows (`Background`)."""
    _min_rows_to_calibrate: ClassVar[int] = 20
    """Rows outside of the most common class from which `auto` calibrates."""

    # Learners that calibrate make this a parameter.
    calibration = "none"
    categorical_features: Sequence[int] | None = None
    random_state: int | np.random.RandomState | None = None

    blocks: Blocks | None = field(default=None, init=False, repr=False)
    """The blocks of the rows while a fit runs; None where splits are random."""
    calibration_: str = field(init=False, repr=False)

    def get_params(self, **_: bool) -> dict[str, Any]:
        """The parameters by name; also where scikit-learn asks for `deep` ones."""
        return {
            param.name: getattr(self, param.name)
            for param in fields(self)
            if param.init
        }

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; ValueError for an unknown one."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                kind = type(self).__name__
                raise ValueError(
                    f"{kind} has no parameter {name!r}; it has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def score(
        self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None
    ) -> float:
        """The accuracy, or R squared of numbers, on rows (n, m) with labels (n,), weights (n,)."""
        score = (
            loading.scikit.r2_score if self.regresses else loading.scikit.accuracy_score
        )
        return float(score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        return loading.scikit.tags(
            several=self.labels == "several", numbers=self.regresses
        )

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
        """A model of rows (n, m), true classes 0…K-1 (each occurs) and positive weights.

        May report progress.
        """
        raise NotImplementedError

    def _check(self) -> None:
        """Raise Invalid for parameters that do not fit each other or the data.

        `classes_` and `n_features_in_` are set.
        """

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        """Decide what all fits of the folds share; arguments as for `_fit_raw`."""

    def fit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        """Fit on rows (n, m), NaN where missing, and labels (n,); weights (n,) count repeated rows.

        With `blocks` all splits of the rows are by group or by time, else at random. The ranges of
        parameters are checked in requests, not here. Raises Invalid for fewer than two classes.
        Time: one raw fit, and up to five more on four fifths of the rows where the probabilities
        are calibrated.
        """
        with self._splitting(blocks):
            X, targets, weights = self._begin(X, y, sample_weight)
            self._fit_calibrated(X, targets, weights)
        self._keep_background(X, weights)
        return self

    def cross_fit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> np.ndarray:
        """`fit`, and each row's calibrated probabilities (n, K) by a model that did not see it.

        There are folds where nothing is calibrated, too. Rows in no fold have zeros.
        """
        with self._splitting(blocks):
            X, targets, weights = self._begin(X, y, sample_weight)
            P = self._cross_fit(X, targets, weights)
        self._keep_background(X, weights)
        return P

    def _begin(
        self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Check the arguments of `fit`, and decide what all of its fits share."""
        options = {
            "multi_output": self.labels == "several",
            "y_numeric": self.regresses,
        }
        if self.blocks is not None and len(self.blocks.codes) != len(X):
            raise Invalid.at(
                "/blocks", f"blocks of {len(self.blocks.codes)} rows for {len(X)} rows"
            )
        X, y, weights = loading.scikit.checked(self, X, y, sample_weight, **options)
        if self.blocks is not None and len(self.blocks.codes) > len(X):
            self.blocks = self.blocks.take(np.asarray(sample_weight) > 0)
        targets = self._targets(y)
        self._check()
        self._prepare(X, targets, weights)
        return X, targets, weights

    @contextmanager
    def _splitting(self, blocks: Blocks | None) -> Iterator[None]:
        """Splits are by these `blocks`; the fitted learner does not keep them."""
        self.blocks = blocks
        try:
            yield
        finally:
            del self.blocks

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """The codes (n,) of labels in `classes_`, which it sets, or the numbers (n,)."""
        if self.regresses:
            if not len(y):
                raise Invalid.at("", "all rows weigh nothing")
            return np.asarray(y, dtype=np.float64)
        loading.scikit.check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            count = len(self.classes_)
            raise Invalid.at(
                "", f"labels hold {count} class; a classifier needs rows of two classes"
            )
        return codes

    def refit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        """Fit the model again on rows (n, m), labels (n,) of the same classes, weights (n,) > 0.

        The calibration and the parameters that `fit` chose stay. For rows that were held out until
        the evaluation. Time: one raw fit.
        """
        targets = (
            np.asarray(y, dtype=np.float64)
            if self.regresses
            else np.searchsorted(self.classes_, y)
        )
        X = np.ascontiguousarray(X)
        weights = weights_or_ones(sample_weight, len(X))
        with self._splitting(blocks):
            self.model_ = self._fit_raw(X, targets, weights)
        self._keep_background(X, weights)
        return self

    def _keep_background(self, X: np.ndarray, weights: np.ndarray) -> None:
        """Keep some of the rows (n, m) that the model is fitted on, with their weights (n,)."""
        answer = self.complete_values if self.regresses else self.complete_posterior
        self._background = (
            None
            if self._knows_gaps
            else Background.of(
                X, weights, self.categorical(), answer, [*self.directions]
            )
        )

    def categorical(self) -> list[int]:
        """The columns that hold category codes."""
        if self.categorical_features is None:
            return []
        return [int(j) for j in self.categorical_features]

    @property
    def directions(self) -> Directions:
        """By column; of learners that take the parameter `monotonic`."""
        return getattr(self, "monotonic", None) or {}

    def signs(self, m: int, classes: int = 0) -> np.ndarray:
        """See `signs_of`: of m columns, for so many classes where they are to be checked."""
        return signs_of(self.directions, range(m), self.categorical(), classes)

    @property
    def _resolution(self) -> float:
        """The smallest probability above 0 that the model can give; 0 where there is no limit."""
        return 0.0

    def _method(self, counts: np.ndarray) -> str:
        """The calibration for these effective numbers of rows per class (K,).

        Of `auto` the default one, until `_calibrate` chooses. The only row of a class cannot be
        held out.
        """
        held_out = np.where(counts > 1, counts, 0)
        if held_out.sum() - held_out.max() < 2:
            return "none"
        return (
            self._automatic(counts) if self.calibration == "auto" else self.calibration
        )

    def _automatic(self, counts: np.ndarray) -> str:
        enough = counts.sum() - counts.max() >= self._min_rows_to_calibrate
        return "sigmoid" if enough else "none"

    def _fit_calibrated(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> None:
        if self.regresses:
            self.model_ = self._fit_raw(X, codes, weights)
            return
        if self._method(effective_rows(weights, codes)) == "none":
            self.calibration_ = "none"
            self.calibrator_ = None
            with part(0.0, 1.0, "fit"):
                self.model_ = self._fit_raw(X, codes, weights)
            return
        self._cross_fit(X, codes, weights)

    def _cross_fit(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Fit and calibrate: see `cross_fit`."""
        counts = effective_rows(weights, codes)
        folds = min(_FOLDS, len(X))
        fold = stratified_folds(codes, folds, self._seed(), self.blocks).astype(np.int8)
        held_out = fold != UNJUDGED
        if self.blocks is not None:
            folds = int(fold.max()) + 1
            counts = effective_rows(weights[held_out], codes[held_out], len(counts))
        self.calibration_ = self._method(counts)
        if not folds:  # of blocks that are all for training only
            self.calibrator_ = None
            self.model_ = self._fit_raw(X, codes, weights)
            return np.zeros((len(X), len(counts)))
        P = self._fit_folds(FoldedRows(X, codes, weights, fold), folds)
        self.calibration_, self.calibrator_ = self._calibrate(
            self.calibration_,
            P[held_out],
            codes[held_out],
            weights[held_out],
            self.blocks_of(held_out),
        )
        P[~held_out] = 0.0
        if self.calibrator_ is not None:
            P[held_out] = self.calibrator_.apply(P[held_out])
        return P

    def blocks_of(self, rows: np.ndarray | slice) -> Blocks | None:
        """The blocks of some of the rows while a fit runs; None where splits are random."""
        return None if self.blocks is None else self.blocks.take(rows)

    def _calibrate(
        self,
        method: str,
        P: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        blocks: Blocks | None,
    ) -> tuple[str, Calibrator | None]:
        """The method, of `auto` the best, and the calibrator fitted on probabilities P (n, K).

        P are of models that did not see the row; `blocks` are those of these rows.
        """
        if self.calibration == "auto" and method != "none":
            # Models of folds may learn nothing where the model of all rows does (boosting of 20
            # rows): their constant probabilities are no evidence about it.
            learned = not are_constant(P, _FOLDS)
            method = (
                best_calibration(P, codes, weights, self._resolution, blocks=blocks)
                if learned
                else "none"
            )
        if method == "none":
            return method, None
        return method, loading.scikit.fit_calibrator(
            method, P, codes, weights, self._resolution
        )

    def _fit_folds(self, rows: FoldedRows, folds: int) -> np.ndarray:
        """Each row's probabilities (n, K) from a model that did not see it; sets `model_`.

        `model_` is the model of all rows.
        The fits do not depend on one another: joblib's parallel_config says where they run. Each
        array is an argument of its own: a cluster sends such an array once, and checks that its
        workers have room for it.
        """
        P = np.empty((len(rows.X), len(self.classes_)))
        fits = Parallel(prefer="threads", return_as="generator")(
            delayed(self.seeded().fit_one)(*rows, number, folds)
            for number in (*range(folds), ALL)
        )
        for number, fitted in enumerate(fits):
            report((number + 1) / (folds + 1), stage_name(number, folds))
            if number < folds:
                P[rows.fold == number] = fitted
            else:
                vars(self).update(fitted)
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
        """Fit without fold `number`: the probabilities of its rows. Of `ALL`: what was fitted."""
        rows = FoldedRows(X, codes, weights, fold)
        stage = folds if number == ALL else number
        with part(
            stage / (folds + 1), (stage + 1) / (folds + 1), stage_name(stage, folds)
        ):
            model = self._fit_raw(*rows.without(number))
        if number != ALL:
            return model.posterior(np.ascontiguousarray(rows.only(number)))
        fitted = {
            name: value for name, value in vars(self).items() if name.endswith("_")
        }
        return fitted | {"model_": model}

    def _shuffled_folds(self, codes: np.ndarray, folds: int) -> np.ndarray:
        """The fold of each row (n,), of its block or, at random, of scikit-learn's StratifiedKFold.

        Classes (n,) have as many rows as there are folds.
        """
        if self.blocks is not None:
            return stratified_folds(codes, folds, self._seed(), self.blocks)
        splitter = loading.scikit.StratifiedKFold(
            folds, shuffle=True, random_state=self.random_state
        )
        fold = np.empty(len(codes), dtype=np.intp)
        for number, (_, outside) in enumerate(splitter.split(codes, codes)):
            fold[outside] = number
        return fold

    def _seed(self) -> int:
        """A number drawn from `random_state`."""
        return int(
            loading.scikit.check_random_state(self.random_state).randint(
                np.iinfo(np.int32).max
            )
        )

    def seeded(self) -> Self:
        """A copy for one piece of work, which shares no state that a fit changes.

        It has no blocks: what is split by them is split before, in `_prepare`.
        """
        learner = copy.copy(self)
        vars(learner).pop("blocks", None)
        if isinstance(self.random_state, np.random.RandomState):
            learner.random_state = int(
                self.random_state.randint(np.iinfo(np.int32).max)
            )
        return learner
