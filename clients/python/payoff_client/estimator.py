"""A classifier of scikit-learn that is trained, and decides, through the service."""

from collections.abc import Mapping
from typing import Any, Self

import httpx
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from payoff_client.client import Payoff
from payoff_client.deciding import Decisions, stated
from payoff_client.documents import Frame
from payoff_client.model import Model
from payoff_client.rows import plain

_LABEL = "label"


# scikit-learn has no types.
class BenefitClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the action with the largest expected benefit, or without `benefits` a class.

    Each `fit` publishes a version of the model `name`: `model_` is that version. `score` is the
    mean benefit per row, without `benefits` the accuracy. `benefits` are
    `{class: {action: number}}`, such a frame, or the name of a matrix saved for `name`. `options`
    are other fields of `/train`, such as `holdout`. Its decisions are not recorded, as
    cross-validation makes many; `model_.decide(…, record=True)` records.

    Parameters
    ----------
    client : Payoff
        By default one for PAYOFF_URL and PAYOFF_KEY. A pickle of the estimator has the URL and the
        key of the client.
    learner : str or dict
        A kind, or `kind` with its parameters.
    """

    def __init__(
        self,
        client: Payoff | None = None,
        *,
        learner: str | Mapping[str, Any] = "logistic",
        benefits: Mapping[Any, Mapping[Any, float]] | Frame | str | None = None,
        name: str = "benefit-classifier",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.client = client
        self.learner = learner
        self.benefits = benefits
        self.name = name
        self.options = options

    def fit(self, X: Any, y: Any) -> Self:
        """Train a version on the rows `X` (n, m), a frame or numbers, and their classes `y` (n,).

        Missing values are NaN. Raises ValueError where `y` has one class, or `benefits` are for
        other classes, before a version is published; JobFailed where the training fails.
        """
        X, y = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_[0]!r}; at least two are needed"
            )
        # The service checks a saved matrix.
        if self.benefits is not None and not isinstance(self.benefits, str):
            self._table()
        labels = [_word(y.dtype.type(label)) for label in y]
        rows = [
            {**row, _LABEL: label}
            for row, label in zip(self._rows(X), labels, strict=True)
        ]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        # With types the service ignores no column of X and merges no two labels.
        types = {
            name: "category"
            if any(isinstance(value, str) for value in values)
            else "number"
            for name, values in columns.items()
            if name != _LABEL or isinstance(labels[0], str)
        }
        options = {"holdout": 0, "types": types, **(self.options or {})}
        model = self._client().train(
            rows, label=_LABEL, learner=self.learner, name=self.name, **options
        )
        self.reference_ = model.reference
        return self

    def _client(self) -> Payoff:
        return self.client if self.client is not None else Payoff()

    @property
    def model_(self) -> Model[httpx.Client]:
        """The version that `fit` published."""
        check_is_fitted(self, "reference_")
        return self._client().model(self.reference_)

    def _rows(self, X: np.ndarray) -> list[dict[str, Any]]:
        return [
            {f"x{j}": plain(value) for j, value in enumerate(row)} for row in X.tolist()
        ]

    def _answer(self, X: Any, **stakes: Any) -> Decisions:
        model = self.model_
        X = validate_data(
            self, X, reset=False, dtype=None, ensure_all_finite="allow-nan"
        )
        return model.answer(self._rows(X), **stakes)

    def predict(self, X: Any) -> np.ndarray:
        """The action for each row (n,); without `benefits` a class."""
        stakes = (
            {"rule": "most_probable"}
            if self.benefits is None
            else {"benefits": self._table()}
        )
        decisions: np.ndarray = self._answer(X, **stakes).decisions
        if self.benefits is not None:
            return decisions
        labels = {str(_word(label)): label for label in self.classes_}
        return np.array(
            [labels[str(name)] for name in decisions], dtype=self.classes_.dtype
        )

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, K) of `classes_`."""
        answer = self._answer(X, rule="most_probable")
        places = {str(name): k for k, name in enumerate(answer.classes)}
        columns = [places[str(_word(label))] for label in self.classes_]
        probabilities: np.ndarray = answer.probabilities[:, columns]
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean benefit of the decisions for true classes `y`; without `benefits` accuracy."""
        decisions = self.predict(X)
        if self.benefits is None:
            earned = (decisions == np.asarray(y)).astype(float)
        else:
            table = self._table()
            pairs = zip(y, decisions, strict=True)
            earned = np.array(
                [
                    table[str(_word(label))][str(_word(chosen))]
                    for label, chosen in pairs
                ]
            )
        return float(np.average(earned, weights=sample_weight))

    def _table(self) -> dict[str, dict[str, float]]:
        """The benefits by class and action; ValueError where they are for other classes."""
        rows: Any = self.benefits
        if isinstance(rows, str):
            rows = self.model_.matrices.get(rows)["benefits"]
        table = {
            str(name): row for name, row in stated(benefits=rows)["benefits"].items()
        }
        classes = [str(_word(label)) for label in self.classes_]
        if table.keys() != set(classes):
            raise ValueError(
                f"benefits need a row for each class of y, {classes}; they have {list(table)}"
            )
        return table

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


def _word(label: Any) -> int | str:
    """A label as the service takes it: an integer or a text."""
    if isinstance(label, int | np.integer) and not isinstance(label, bool | np.bool_):
        return int(label)
    return str(label)
