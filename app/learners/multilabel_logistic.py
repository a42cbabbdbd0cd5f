"""Several labels at once: a calibrated logistic regression for each, optionally in a chain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from scipy.special import expit, logit

from app.decisions.calibration import Calibrator
from app.learners._design import Design
from app.learners._linear import Linear
from app.learners._multilabel import Curves, Multilabel, as_indicator, constant_share
from app.learners.base import scikit
from app.learners.logistic import Logistic, chosen_transform
from app.learners.parameters import Calibration, Strength
from app.progress import part

_FOLDS = 5
_TRANSFORMS = ("clip", "none")


class MultilabelLogistic(Multilabel):
    """A logistic regression for each of several labels: the probability that it applies, for `/retrieve`.

    y is an indicator (n, L) of 0 and 1. Parameters as of `logistic.Logistic`, for each label; the transform is one for
    all labels, and `auto` is `clip` or `none`: the others take three to ten times as long. `chain`: in training, the
    probabilities of the labels before are out-of-fold, as in prediction (nested stacking: Senge, del Coz and
    Hüllermeier 2013, "Rectifying classifier chains", section 4). So the answer is the marginal probability of every
    label, with no sum over combinations.
    A label that is the same in all rows of positive weight is given (its ones + 1)/(n + 2).

    Fitted: as `Multilabel`, `numeric_transform_` (the one used), and `converged_` (whether all fits did). Training
    makes L fits of `Logistic`, and six of each label for `auto`; in a chain up to five more raw fits for each.
    Answering a row costs one product, in a chain one per label.
    """

    C: Strength = 1.0
    calibration: Calibration = "auto"
    chain: Annotated[bool, "Whether each label's model also uses the probabilities of the labels before it."] = False
    numeric_transform: str = "auto"

    scorer_: Linear | Chain = field(init=False, repr=False)
    converged_: bool = field(init=False, repr=False)

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit every label again on rows (n, m) and labels (n, L); calibration stays.

        Time: one raw fit for each label, in a chain up to six.
        """
        again = replace(self, calibration="none", numeric_transform=self.numeric_transform_)
        again._fit_labels(np.ascontiguousarray(X), as_indicator(y), np.ones(len(X)))  # noqa: SLF001 - our own class
        self.scorer_, self.converged_ = again.scorer_, again.converged_
        return self

    def _odds(self, X: np.ndarray) -> np.ndarray:
        return self.scorer_.scores(X)

    def _fit_labels(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        self.numeric_transform_ = chosen_transform(
            self.numeric_transform, X, Y, weights, self.categorical(), self.C, _TRANSFORMS
        )
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
        self.converged_ = all(label.converged for label in labels)

    def _fit_label(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> _Label:
        rows, ones = len(y), int(y.sum())
        if ones in (0, rows):
            design = Design.fit(X, weights, self.categorical(), self.numeric_transform_)
            share = constant_share(ones, rows)
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
        splits = scikit().StratifiedKFold(folds, shuffle=True, random_state=self.random_state).split(X, y)
        for inside, outside in splits:
            model = self._logistic("none").fit(X[inside], y[inside], weights[inside])
            p[outside] = model.posterior(np.ascontiguousarray(X[outside]))[:, 1]
        return p

    def _logistic(self, calibration: Any) -> Logistic:
        return Logistic(
            C=self.C,
            numeric_transform=self.numeric_transform_,
            calibration=calibration,
            categorical_features=self.categorical_features,
            random_state=self.random_state,
        )


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
