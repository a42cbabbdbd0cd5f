"""A classifier of scikit-learn that is trained, and decides, through the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from payoff_client.client import Payoff
from payoff_client.datasets import labelled
from payoff_client.model import Model

_LABEL = "label"


class BenefitClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Predicts the action with the largest expected benefit; without `benefits` the most probable class.

    Each `fit` publishes a version of the model `name`: `model_` is that version. `score` is the mean benefit per row,
    without `benefits` the accuracy. `benefits` are `{class: {action: number}}`, such a frame, the name of a matrix
    saved for `name`, or a matrix (K, A) whose rows are `classes_` and whose columns are `actions` (by default the
    classes). `options` are other fields of `/train`, as `holdout`. Its decisions are not recorded, as cross-validation
    makes many; `model_.decide(…, record=True)` records.

    Parameters
    ----------
    client : Payoff
        By default one for PAYOFF_URL and PAYOFF_KEY. A pickle of the estimator has the client's url and key.
    learner : str or dict
        A kind, or `kind` with its parameters.
    """

    def __init__(
        self,
        client: Payoff | None = None,
        *,
        learner: str | Mapping[str, Any] = "logistic",
        benefits: Any = None,
        actions: Sequence[str] | None = None,
        name: str = "benefit-classifier",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.client = client
        self.learner = learner
        self.benefits = benefits
        self.actions = actions
        self.name = name
        self.options = options

    def fit(self, X: Any, y: Any) -> Self:
        """Train a version on the rows `X` (n, m), a frame or numbers, and their classes `y` (n,).

        Missing values are NaN. Raises ValueError where `y` has one class, or `benefits` are for other classes, before a
        version is published; JobFailed where the training fails.
        """
        checked, y = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; at least two are needed")
        self._check_benefits()
        self._names = [f"x{j}" for j in range(self.n_features_in_)]
        rows = labelled(checked, [_words(y.dtype.type(label)) for label in y], self._names, _LABEL)
        options = {"holdout": 0, **(self.options or {})}
        model = self._client().train(
            rows, label=_LABEL, learner=self.learner, name=self.name, progress=False, **options
        )
        self.reference_ = model.reference
        return self

    def _check_benefits(self) -> None:
        if self.benefits is None or isinstance(self.benefits, str):  # a saved matrix is the service's to check
            return
        classes = [str(_words(label)) for label in self.classes_]
        rows = list(self._table()) if self._is_in_words() else classes[: len(self.benefits)]
        if sorted(rows) != sorted(classes) or len(self.benefits) != len(classes):
            raise ValueError(f"benefits need a row for each class of y, {classes}; they have {rows}")

    def _client(self) -> Payoff:
        return self.client if self.client is not None else Payoff()

    @property
    def model_(self) -> Model:
        """The version that `fit` published."""
        check_is_fitted(self, "reference_")
        return self._client().model(self.reference_)

    def _rows(self, X: Any) -> list[dict[str, Any]]:
        check_is_fitted(self, "reference_")
        checked = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
        return [dict(zip(self._names, row, strict=True)) for row in checked.tolist()]

    def predict(self, X: Any) -> np.ndarray:
        """The action for each row (n,); without `benefits` a class."""
        answer = self.model_.answer(self._rows(X), record=False, **self._stakes())
        of_classes = self.benefits is None or (self.actions is None and not self._is_in_words())
        return self._labels(answer.decisions) if of_classes else answer.decisions

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, K) of `classes_`."""
        answer = self.model_.answer(self._rows(X), record=False, rule="most_probable")
        places = {str(name): k for k, name in enumerate(answer.classes)}
        return answer.probabilities[:, [places[str(_words(label))] for label in self.classes_]]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean benefit of the decisions where `y` are the true classes; without `benefits` the accuracy."""
        decisions = self.predict(X)
        if self.benefits is None:
            earned = (decisions == np.asarray(y)).astype(float)
        else:
            table = self._table()
            earned = np.array(
                [table[str(_words(label))][str(_words(chosen))] for label, chosen in zip(y, decisions, strict=True)]
            )
        return float(np.average(earned, weights=sample_weight))

    def _labels(self, found: np.ndarray) -> np.ndarray:
        by_word = {str(_words(label)): label for label in self.classes_}
        return np.array([by_word[str(name)] for name in found], dtype=self.classes_.dtype)

    def _is_in_words(self) -> bool:
        """Whether the benefits have names of classes and actions of their own."""
        return isinstance(self.benefits, Mapping | str) or hasattr(self.benefits, "to_dict")

    def _table(self) -> dict[str, dict[str, float]]:
        """The benefits by the names of classes and actions."""
        if isinstance(self.benefits, str):
            return _by_name(self.model_.matrices.get(self.benefits)["benefits"])
        if hasattr(self.benefits, "to_dict"):
            return _by_name(self.benefits.to_dict("index"))
        if isinstance(self.benefits, Mapping):
            return _by_name(self.benefits)
        classes = [str(_words(label)) for label in self.classes_]
        columns = [str(name) for name in self.actions] if self.actions is not None else classes
        return {
            c: dict(zip(columns, map(float, row), strict=True)) for c, row in zip(classes, self.benefits, strict=True)
        }

    def _stakes(self) -> dict[str, Any]:
        return {"benefits": self._table()} if self.benefits is not None else {"rule": "most_probable"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


def _by_name(table: Mapping[Any, Mapping[Any, Any]]) -> dict[str, dict[str, float]]:
    return {str(name): {str(action): float(value) for action, value in row.items()} for name, row in table.items()}


def _words(label: Any) -> int | str:
    """A label as the service takes it: an integer or a text."""
    if isinstance(label, int | np.integer) and not isinstance(label, bool | np.bool_):
        return int(label)
    return str(label)
