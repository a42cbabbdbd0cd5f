"""Several labels at once: a calibrated logistic regression for each, optionally in a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from app.decisions.calibration import Calibrator, Isotonic, Sigmoid
from app.errors import Invalid
from app.learners._design import Design
from app.learners._linear import Linear
from app.learners.base import Learner
from app.learners.kinds import Kind
from app.learners.logistic import Logistic
from app.learners.parameters import CALIBRATION, STRENGTH, Parameter
from app.progress import part

_FOLDS = 5
_FARTHEST = float(logit(1 - 1e-15))  # log-odds whose probability still differs from 1


class MultilabelLogistic(Learner):
    """One calibrated logistic regression per label; y is an indicator (n, L) of 0 and 1.

    `C`, `calibration`, `categorical_features`, `random_state`: `logistic.Logistic`'s, for each label. `chain`: each
    label's model also uses the probabilities of the labels before it, in the order of the columns; in training these
    are out-of-fold probabilities, as in prediction (nested stacking: Senge, del Coz and Hüllermeier 2013, "Rectifying
    classifier chains", section 4). So the answer is the marginal probability of every label, with no sum over
    combinations.
    A label that is the same in all rows of positive weight is given (its ones + 1)/(n + 2).

    Fitted: `classes_` (0 … L-1), `calibrations_` (the method used for each label) and `calibration_` (all of them in
    one string), `converged_` (whether all fits did). `predict_proba` and `posterior` return the marginals (n, L), not
    one array per label; `predict` the labels above 1/2. A row costs one product, in a chain one per label.
    """

    parameters = (
        STRENGTH,
        CALIBRATION,
        Parameter(
            "chain",
            "boolean",
            default=False,
            doc="Whether each label's model also uses the probabilities of the labels before it.",
        ),
    )

    def __init__(
        self,
        *,
        C: float = 1.0,
        calibration: str = "auto",
        chain: bool = False,
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.calibration = calibration
        self.chain = chain
        self.categorical_features = categorical_features
        self.random_state = random_state

    scorer_: Linear | Chain
    curves_: Curves
    calibrations_: list[str]
    converged_: bool

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit on rows (n, m), NaN where missing, and labels (n, L) of 0 and 1; weights (n,) count as repeated rows.

        Raises Invalid for a wrong parameter or labels of another form. Time: L fits of `Logistic`; in a chain up to
        five more raw fits each.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", ensure_all_finite="allow-nan", multi_output=True)
        check_classification_targets(y)
        Y = _as_indicator(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        counted = weights > 0
        self._check_common()
        self._check_codes(X)
        self.classes_ = np.arange(Y.shape[1])
        self._fit_labels(X[counted], Y[counted], weights[counted])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The labels (n, L) whose probability is above 1/2, as 1, the others as 0."""
        return (self.predict_proba(X) > 0.5).astype(np.intp)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """`predict_proba` without any check, for float64 C-contiguous rows (n, m)."""
        return self.curves_.apply(self.scorer_.scores(X))

    def _fit_labels(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        labels: list[_Label] = []
        for position in range(Y.shape[1]):
            low, high = position / Y.shape[1], (position + 1) / Y.shape[1]
            with part(low, high, f"label {position + 1} of {Y.shape[1]}"):
                label = self._fit_label(X, Y[:, position], weights)
                labels.append(label)
                if self.chain and position + 1 < Y.shape[1]:
                    X = np.column_stack((X, self._unseen(label, X, Y[:, position], weights)))
        linears = tuple(label.linear for label in labels)
        fixed = tuple(label.fixed for label in labels)
        self.scorer_ = Chain(linears, fixed) if self.chain else Linear.beside(linears)
        self.curves_ = Curves.of([label.calibrator for label in labels])
        self.calibrations_ = [label.calibration for label in labels]
        self.calibration_ = ", ".join(sorted(set(self.calibrations_)))
        self.converged_ = all(label.converged for label in labels)

    def _fit_label(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> _Label:
        rows, ones = len(y), int(y.sum())
        if ones in (0, rows):
            design = Design.fit(X, weights, self._categorical())
            share = (ones + 1) / (rows + 2)
            linear = Linear.fold(design, np.zeros((1, design.width)), np.array([logit(share)]))
            return _Label(linear, None, "none", converged=True, fixed=share)
        model = self._logistic(self.calibration).fit(X, y, weights)
        fixed = ones / rows if min(ones, rows - ones) < 2 else None
        return _Label(
            model.model_.linear, model.calibrator_, model.calibration_, converged=model.converged_, fixed=fixed
        )

    def _unseen(self, label: _Label, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The label's probability (n,) for each row, from a model that did not see the row."""
        if label.fixed is not None:
            return np.full(len(y), label.fixed)
        folds = min(_FOLDS, int(np.bincount(y).min()))
        p = np.empty(len(y))
        for inside, outside in StratifiedKFold(folds, shuffle=True, random_state=self.random_state).split(X, y):
            model = self._logistic("none").fit(X[inside], y[inside], weights[inside])
            p[outside] = model.posterior(np.ascontiguousarray(X[outside]))[:, 1]
        return p

    def _logistic(self, calibration: str) -> Logistic:
        return Logistic(
            C=self.C,
            calibration=calibration,
            categorical_features=self.categorical_features,
            random_state=self.random_state,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        return tags


@dataclass(frozen=True)
class _Label:
    """One label's fit; `fixed` is what a chain passes on where there are too few rows to learn what it should."""

    linear: Linear
    calibrator: Calibrator | None
    calibration: str
    converged: bool
    fixed: float | None


@dataclass(frozen=True)
class Chain:
    """A linear model per label (L of them), each on the features and the probabilities of the labels before it."""

    linears: tuple[Linear, ...]
    fixed: tuple[float | None, ...]

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Log-odds (n, L) before calibration for rows (n, m)."""
        n, m = X.shape
        rows = np.empty((n, m + len(self.linears)))
        rows[:, :m] = X
        Z = np.empty((n, len(self.linears)))
        for position, (linear, fixed) in enumerate(zip(self.linears, self.fixed, strict=True)):
            Z[:, position] = linear.scores(np.ascontiguousarray(rows[:, : m + position]))[:, 0]
            rows[:, m + position] = expit(Z[:, position]) if fixed is None else fixed
        return Z


@dataclass(frozen=True)
class Curves:
    """The calibration curves of L labels, applied together: a sigmoid each, and steps for the `stepped` ones."""

    slopes: np.ndarray
    offsets: np.ndarray
    lowest: np.ndarray
    stepped: tuple[tuple[int, np.ndarray, np.ndarray], ...]
    farthest: np.ndarray | float = _FARTHEST  # models trained before the limits followed from the rows have none

    @classmethod
    def of(cls, calibrators: Sequence[Calibrator | None]) -> Self:
        """From calibrators of two classes; None leaves the label's probability as it is."""
        slopes, offsets, lowest = np.ones(len(calibrators)), np.zeros(len(calibrators)), np.zeros(len(calibrators))
        farthest = np.full(len(calibrators), _FARTHEST)
        stepped = []
        for position, curve in enumerate(calibrators):
            if isinstance(curve, Sigmoid):
                slopes[position], offsets[position], lowest[position] = curve.slopes[0], curve.offsets[0], curve.lowest
                farthest[position] = logit(1 - curve.limit)
            elif isinstance(curve, Isotonic):
                stepped.append((position, curve.knots[0], curve.heights[0]))
        return cls(slopes, offsets, lowest, tuple(stepped), farthest)

    def apply(self, Z: np.ndarray) -> np.ndarray:
        """Probabilities (n, L), never 0 or 1, for log-odds (n, L)."""
        odds = np.minimum(np.maximum(Z, -self.farthest), self.farthest)
        odds *= self.slopes
        odds += self.offsets
        P: np.ndarray = np.minimum(np.maximum(expit(odds), self.lowest), 1.0 - self.lowest)
        for position, knots, heights in self.stepped:
            P[:, position] = np.interp(P[:, position], knots, heights)
        return P


def _as_indicator(y: Any) -> np.ndarray:
    """The labels as integers (n, L); Invalid where they are no table of 0 and 1."""
    table = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if table.ndim != 2 or not np.isin(table, (0, 1)).all():
        raise Invalid.at("", "labels take a table of 0 and 1: a row per instance, a column per label")
    return table.astype(np.int64)


KIND = Kind(
    "multilabel_logistic",
    MultilabelLogistic,
    MultilabelLogistic.parameters,
    "A logistic regression for each of several labels: the probability that it applies, for `/retrieve`.",
    labels="several",
)
