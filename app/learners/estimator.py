"""What scikit-learn asks of a classifier, without its base class: importing that takes 60 MB and 0.7 s.

A service that only predicts with linear models, forests or cost trees does without scikit-learn: so what trains them
imports it inside functions. The methods follow https://scikit-learn.org/stable/developers/develop.html;
`tests/learners/test_estimator_checks.py` runs its checks.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:  # see above
    from sklearn.utils import Tags


class Estimator:
    """Parameters by name, as the constructor takes them; accuracy as the score; tags of a classifier."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep` those of estimators among them, too, as `name__parameter`."""
        found = {name: getattr(self, name) for name in sorted(inspect.signature(type(self)).parameters)}
        inner = {name: value.get_params() for name, value in found.items() if deep and isinstance(value, Estimator)}
        return found | {f"{name}__{part}": value for name, parts in inner.items() for part, value in parts.items()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; ValueError for an unknown one."""
        known, nested = self.get_params(deep=False), defaultdict[str, dict[str, Any]](dict)
        for path, value in parameters.items():
            name, inside, part = path.partition("__")
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            if inside:
                nested[name][part] = value
            else:
                setattr(self, name, value)
        for name, parts in nested.items():
            getattr(self, name).set_params(**parts)
        return self

    def score(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
        """The share of rows (n, m) whose prediction is y, weighted by (n,) where given."""
        from sklearn.metrics import accuracy_score  # noqa: PLC0415 - see above

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The prediction for each row (n, m)."""
        raise NotImplementedError

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = {name: value for name, value in self.get_params(deep=False).items() if value is not None}
        changed = [f"{name}={value!r}" for name, value in given.items() if repr(value) != repr(defaults[name].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # noqa: PLC0415 - see above

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(allow_nan=True),
        )
