"""scikit-learn's random forest, kept as flat trees that answer quickly and can ask feature by feature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

from app.acquisition.categories import order_categories
from app.acquisition.forest import FlatForest
from app.errors import Invalid
from app.learners.stepwise import Stepwise
from app.progress import report

_ROUND = 16  # trees between two reports of progress
_LARGEST = float(np.finfo(np.float32).max)


class RandomForest(Stepwise):
    """Random forest (Breiman 2001) as scikit-learn grows it, with calibrated probabilities.

    `n_estimators`, `max_features` (features looked at per split: a number, a fraction, `sqrt`, `log2`; None is all) and
    `min_samples_leaf` mean what they mean there; `n_jobs` threads do not change the result. Categories are put in the
    order of their class distributions and then split like numbers. The other parameters are `Learner`'s.
    `predict` takes the largest (calibrated) probability; `model_.predict` is the plain vote of the trees.
    Fitted: as `Stepwise`. Answering costs O(trees x depth) a row.
    """

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_features: float | str | None = "sqrt",
        min_samples_leaf: int = 1,
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check(self) -> None:
        for name in ("n_estimators", "min_samples_leaf"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise Invalid.at(f"/{name}", f"{name} is an integer of at least 1")
        if not self._takes_features():
            message = f"max_features is sqrt, log2, null, a fraction up to 1.0 or 1…{self.n_features_in_}"
            raise Invalid.at("/max_features", message)

    def _takes_features(self) -> bool:
        most = self.max_features
        if most is None or isinstance(most, str):
            return most in {None, "sqrt", "log2"}
        if isinstance(most, bool):
            return False
        return 1 <= most <= self.n_features_in_ if isinstance(most, int | np.integer) else 0 < most <= 1

    def _again(self) -> RandomForest:
        again: RandomForest = clone(self).set_params(calibration="none")
        return again

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> FlatForest:
        if len(X) and np.nanmax(np.abs(X), initial=0.0) > _LARGEST:
            raise Invalid.at("", f"a random forest takes values up to {_LARGEST:.3g}")
        orders = order_categories(X, codes, weights, len(self.classes_), self._categorical())
        model = RandomForestClassifier(
            max_features=self.max_features, min_samples_leaf=self.min_samples_leaf, random_state=self.random_state,
            n_jobs=self.n_jobs, warm_start=True,
        )  # fmt: skip
        ranked = orders.apply(X)
        # Equal weights are none: scikit-learn draws its rows in another way once there are weights.
        counted = None if (weights == weights[0]).all() else weights
        for trees in [*range(_ROUND, self.n_estimators, _ROUND), self.n_estimators]:
            model.set_params(n_estimators=trees).fit(ranked, codes, sample_weight=counted)
            report(trees / self.n_estimators, "growing trees")
        return FlatForest.from_sklearn(model, orders)
