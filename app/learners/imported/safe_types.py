"""What a model in a skops file may consist of.

skops trusts types that run no code while they are loaded. Some of them do when they predict: text vectorizers open
files and match any regular expression, others call what they are given. So the list here is shorter, and closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np

from app.errors import Invalid
from app.text import some_of

_SKLEARN = {
    "": "CyExponentialLoss CyHalfBinomialLoss CyHalfMultinomialLoss CyHalfSquaredError ExponentialLoss HalfBinomialLoss"
    " HalfLogitLink HalfMultinomialLoss HalfSquaredError IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "compose": "ColumnTransformer _RemainderColsList make_column_selector",
    "decomposition": "FactorAnalysis FastICA IncrementalPCA PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": "AdaBoostClassifier BaggingClassifier ExtraTreesClassifier ExtraTreesRegressor"
    " GradientBoostingClassifier HistGradientBoostingClassifier RandomForestClassifier RandomForestRegressor"
    " StackingClassifier TreePredictor VotingClassifier _BinMapper",
    "feature_selection": "GenericUnivariateSelect RFE SelectFdr SelectFpr SelectFromModel SelectFwe SelectKBest"
    " SelectPercentile VarianceThreshold",
    "frozen": "FrozenEstimator",
    "impute": "MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "linear_model": "ElasticNet Hinge Lasso LinearRegression LogisticRegression LogisticRegressionCV ModifiedHuber"
    " PassiveAggressiveClassifier Perceptron Ridge RidgeClassifier SGDClassifier SquaredHinge",
    "model_selection": "KFold StratifiedKFold",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier _ConstantPredictor",
    "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "neural_network": "AdamOptimizer MLPClassifier SGDOptimizer",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "Binarizer KBinsDiscretizer LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler Normalizer"
    " OneHotEncoder OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler"
    " StandardScaler TargetEncoder",
    "svm": "LinearSVC",  # the others hand their arrays to compiled code that trusts their sizes
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor Tree",
    "utils": "Bunch",
}
SCORES = ("chi2", "f_classif", "mutual_info_classif")  # they are kept by selectors, which do not call them again
_ALLOWED = {
    *(f"sklearn{'.' * bool(area)}{area}.{name}" for area, names in _SKLEARN.items() for name in names.split()),
    *(f"sklearn.feature_selection.{name}" for name in SCORES),
    *(f"numpy.random.{name}" for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")),
    "builtins.slice",
    "collections.OrderedDict",
    "numpy.random.Generator",
    "numpy.random.mtrand.RandomState",
    "scipy.interpolate.interp1d",  # isotonic regressions make it themselves; skops loads none
    "scipy.interpolate.interp1d._call_linear",
    "scipy.interpolate.interp1d._call_linear_np",
    "scipy.interpolate.interp1d._call_nan_spline",
}
_METHODS = ("decision_function", "predict", "predict_proba")
_SHOWN = 10
_WHERE = "docs/how-to/import-a-model.md lists what a skops file may contain"


def check_types(parts: Iterable[Any]) -> None:
    """Invalid with the names of `parts` that are not on the list; `parts` are all objects of a model."""
    refused = sorted({name for part in parts if not _is_safe(part, name := _name(part))})
    if refused:
        named = some_of(refused, _SHOWN)
        raise Invalid.at("/file", f"the model contains what a skops file may not contain: {named}; {_WHERE}")


def _is_safe(part: Any, name: str) -> bool:
    if isinstance(part, type):  # such as the type of the numbers that an encoder makes
        return part in (bool, float, int, object, str) or issubclass(part, np.generic)
    if type(part) is np.ndarray:
        return part.dtype == object or not part.dtype.hasobject
    if name == "sklearn.preprocessing.FunctionTransformer":  # a ColumnTransformer has one for columns that it passes on
        return part.func is None
    methods = getattr(part, "stack_method_", ())  # which it calls
    return (name in _ALLOWED or isinstance(part, np.dtype)) and all(one in _METHODS for one in methods)


def _name(part: Any) -> str:
    """The full name of a type, a function or an object's type, without the private modules on the way."""
    named = part if isinstance(part, FunctionType | type) else type(part)
    return f"{named.__module__.partition('._')[0]}.{named.__qualname__}"
