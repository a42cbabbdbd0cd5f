"""Fitted classifiers from joblib files, called as they are. Loading one runs the code that it names."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np

from app.errors import Invalid
from app.features import Schema
from app.learners.imported.columns import Columns
from app.learners.imported.estimator import class_order


@dataclass(frozen=True, eq=False)
class JoblibScorer:
    """A classifier with `predict_proba`; `order` (K,): the data set's classes among its own, None where they agree."""

    model: Any
    columns: Columns
    order: np.ndarray | None

    @property
    def made_by(self) -> str:
        """The name of its class."""
        return type(self.model).__name__

    def answers(self, X: np.ndarray) -> np.ndarray:
        """The probabilities (n, K) as the model gives them, in its own order."""
        with joblib.parallel_config(backend="sequential"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # it was fitted on a frame
            return np.asarray(self.model.predict_proba(self.columns.of_rows(X)), dtype=np.float64)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of rows (n, m) in the order of the data set's classes."""
        P = self.answers(X)
        return P if self.order is None else P[:, self.order]


def load(content: bytes, schema: Schema, classes: Sequence[int | str], *, version_skew: bool) -> JoblibScorer:
    """The object in a joblib file as a scorer of the data set's rows; Invalid where they do not fit.

    `version_skew`: whether an estimator of another version of scikit-learn is taken.
    """
    model = _loaded(content, version_skew=version_skew)
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        what = f"{type(model).__name__!r} gives no class probabilities (predict_proba), or is not fitted"
        raise Invalid.at("/file", f"{what}; expected a fitted classifier")
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else [str(name) for name in names]
    columns = Columns.of(schema, known, getattr(model, "n_features_in_", None))
    return JoblibScorer(model, columns, class_order(list(model.classes_), classes))


def _loaded(content: bytes, *, version_skew: bool) -> Any:
    from sklearn.exceptions import InconsistentVersionWarning  # noqa: PLC0415 - 60 MB that other models do without

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("ignore" if version_skew else "error", InconsistentVersionWarning)
            return joblib.load(io.BytesIO(content))
    except InconsistentVersionWarning as error:
        made, here = error.original_sklearn_version, error.current_sklearn_version
        what = f"{error.estimator_name} was made with scikit-learn {made}, and {here} is installed"
        raise Invalid.at("/file", f"{what}: save it with {here}, or set PAYOFF_ALLOW_VERSION_SKEW") from error
    except Exception as error:
        raise Invalid.at("/file", f"the file cannot be loaded: {type(error).__name__}: {str(error)[:300]}") from error
