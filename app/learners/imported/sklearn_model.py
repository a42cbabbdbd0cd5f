"""Models of scikit-learn: from skops files, whose types are checked before anything is built, and from pickles."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline
from sklearn.tree._tree import Tree

from app.errors import Invalid
from app.features import Schema
from app.learners.imported.columns import Columns
from app.learners.imported.estimator import class_order
from app.learners.imported.safe_types import SCORES, check_types
from app.learners.onnx_export import of_sklearn
from app.text import some_of

_TRUSTED = [  # besides those that skops trusts
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",  # `_check_trees` checks it, and `Tree`
    *(f"sklearn.feature_selection._univariate_selection.{name}" for name in SCORES),
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
]
_SHOWN = 10
_PARTS = 100_000  # of an object that are looked at


@dataclass(frozen=True, eq=False)
class SklearnScorer:
    """A classifier of scikit-learn; `order` (K,) are the data set's classes among its own, None where they agree."""

    model: Any
    columns: Columns
    order: np.ndarray | None

    @property
    def last_step(self) -> str:
        """The class at the end of the pipeline."""
        return described(self.model).rpartition(", ")[2]

    def onnx(self, schema: Schema) -> bytes:
        """The model as an ONNX file; Invalid where it cannot be converted."""
        return of_sklearn(self.model, [schema.features[j] for j in self.columns.order])

    def posterior(self, X: np.ndarray) -> np.ndarray:
        P = np.asarray(self.model.predict_proba(self.columns.of_rows(X)), dtype=np.float64)
        return P if self.order is None else P[:, self.order]


def load_skops(content: bytes, max_bytes: int, *, version_skew: bool) -> Any:
    """The object in a skops file of types that `safe_types` lists; Invalid with the others' names.

    `max_bytes` bounds what the file unpacks to.
    """
    from skops.io import loads  # noqa: PLC0415 - it takes a second, and most processes do without
    from skops.io.exceptions import UntrustedTypesFoundException  # noqa: PLC0415

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except zipfile.BadZipFile as error:
        raise Invalid.at("/file", "the file is not a skops file: it is no ZIP archive, or is truncated") from error
    if size > max_bytes:
        raise Invalid.at("/file", f"the file unpacks to {size:,} bytes; at most {max_bytes:,} are allowed")
    try:
        model = _of_this_version(lambda: loads(content, trusted=_TRUSTED), version_skew=version_skew)
    except Invalid as error:
        if isinstance(error.__cause__, UntrustedTypesFoundException):
            raise Invalid.at("/file", f"types that are not on the safe list: {_untrusted(content)}") from error
        raise
    check_types(_parts(model))
    return model


def load_joblib(content: bytes, *, version_skew: bool) -> Any:
    """The object in a pickle, which runs the code that it names."""
    return _of_this_version(lambda: joblib.load(io.BytesIO(content)), version_skew=version_skew)


def scorer(model: Any, schema: Schema, classes: Sequence[int | str]) -> SklearnScorer:
    """A fitted classifier as a scorer of the data set's rows; changes `model`. Invalid where they do not fit."""
    if not isinstance(model, BaseEstimator) and not hasattr(model, "classes_"):
        raise Invalid.at("/file", f"the file contains {type(model).__name__!r}; expected a fitted classifier")
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        what = f"{type(model).__name__!r} gives no class probabilities (predict_proba), or is not fitted"
        raise Invalid.at("/file", f"{what}; expected a fitted classifier")
    order = class_order(list(model.classes_), classes)
    names = getattr(model, "feature_names_in_", None)
    parts = [part for part in _parts(model) if not isinstance(part, type)]
    columns = Columns.of(
        schema,
        None if names is None else [str(name) for name in names],
        getattr(model, "n_features_in_", None),
        _absent(parts),
    )
    _make_plain(parts)
    return SklearnScorer(model, columns, order)


def described(model: Any) -> str:
    """The classes of a model's steps, as in `StandardScaler, LogisticRegression`."""
    if isinstance(model, Pipeline):
        return ", ".join(described(step) for _, step in model.steps if step is not None and step != "passthrough")
    return type(model).__name__


def _of_this_version(load: Any, *, version_skew: bool) -> Any:
    """What `load` returns; Invalid where it raises, and where another scikit-learn made it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("ignore" if version_skew else "error", InconsistentVersionWarning)
            return load()
    except InconsistentVersionWarning as error:
        made, here = error.original_sklearn_version, error.current_sklearn_version
        what = f"{error.estimator_name} was made with scikit-learn {made}, and {here} is installed"
        raise Invalid.at("/file", f"{what}: save it with {here}, or set PAYOFF_ALLOW_VERSION_SKEW") from error
    except Exception as error:
        raise Invalid.at("/file", f"the file cannot be loaded: {type(error).__name__}: {str(error)[:300]}") from error


def _untrusted(content: bytes) -> str:
    from skops.io import get_untrusted_types  # noqa: PLC0415 - see above

    return some_of([name for name in get_untrusted_types(data=content) if name not in _TRUSTED], _SHOWN)


def _parts(root: Any) -> Iterator[Any]:
    """All objects that a model consists of, itself first, without words, numbers and plain containers."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, str | bytes | int | float | np.generic | None):
            continue
        seen.add(id(one))
        if len(seen) > _PARTS:
            raise Invalid.at("/file", f"the model has more than {_PARTS:,} parts")
        if type(one) not in (dict, list, set, tuple):
            yield one
            waiting.extend(() if isinstance(one, type) else getattr(one, "__dict__", {}).values())
        if isinstance(one, dict):
            waiting.extend((*one, *one.values()))
        elif isinstance(one, list | tuple | set) or (isinstance(one, np.ndarray) and one.dtype == object):
            waiting.extend(one.ravel() if isinstance(one, np.ndarray) else one)


def _absent(parts: Sequence[Any]) -> float | None:
    """What stood for a missing category in training: None where an encoder or imputer knows it, else NaN."""
    for part in parts:
        if getattr(part, "missing_values", np.nan) is None:
            return None
        for known in getattr(part, "categories_", ()):
            if any(value is None for value in np.asarray(known, dtype=object)):
                return None
    return np.nan


def _make_plain(parts: Sequence[Any]) -> None:
    """Have a model take arrays, run in one thread and print nothing; its answers stay.

    Columns that are selected by name are selected by position. Invalid for trees whose nodes lead out of their arrays.
    """
    for part in parts:
        _check_trees(part)
        if isinstance(part, ColumnTransformer) and hasattr(part, "transformers_"):
            places = part._transformer_to_input_indices  # noqa: SLF001 - where it keeps the positions
            part.transformers_ = [
                (name, one, places[name][0] if np.isscalar(columns) else list(places[name]))
                for name, one, columns in part.transformers_
            ]
        state = getattr(part, "__dict__", {})
        state.pop("feature_names_in_", None)
        if isinstance(part, BaseEstimator):
            state.pop("_sklearn_output_config", None)
            state.update(
                {name: plain for name, plain in (("n_jobs", 1), ("verbose", 0), ("memory", None)) if name in state}
            )


def _check_trees(part: Any) -> None:
    count = getattr(part, "n_features_in_", 0)
    forest = isinstance(part, BaseForest | BaseGradientBoosting)
    for tree in np.ravel(getattr(part, "estimators_", ())) if forest else ():
        if tree.n_features_in_ != count:
            raise Invalid.at("/file", "a tree of the model is damaged: it has other columns than its forest")
    if isinstance(tree := getattr(part, "tree_", None), Tree):
        _check_tree(tree.children_left, tree.children_right, tree.feature, min(count, tree.n_features))
    for predictor in (one for several in getattr(part, "_predictors", ()) for one in several):
        _check_predictor(predictor, count)


def _check_tree(left: np.ndarray, right: np.ndarray, feature: np.ndarray, n_features: int) -> None:
    leaf, places = left < 0, np.arange(len(left))
    inner = ~leaf
    children = np.stack((left[inner], right[inner]))
    good = (children > places[inner]).all() and (children < len(left)).all()
    if not (good and (right[leaf] < 0).all() and (feature[inner] >= 0).all() and (feature[inner] < n_features).all()):
        raise Invalid.at("/file", "a tree of the model is damaged: a node leads to none")


def _check_predictor(predictor: Any, n_features: int) -> None:
    nodes = predictor.nodes
    left, right = (np.where(nodes["is_leaf"], -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    _check_tree(left, right, nodes["feature_idx"].astype(np.int64), n_features)
    sets = nodes["bitset_idx"][nodes["is_categorical"].astype(bool)]
    if (sets >= len(predictor.raw_left_cat_bitsets)).any():
        raise Invalid.at("/file", "a tree of the model is damaged: a node has no categories")
