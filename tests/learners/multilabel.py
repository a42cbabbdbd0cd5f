"""For the tests of learners of several labels: a table, and scikit-learn's checks that do not fit them."""

import numpy as np
from scipy.special import expit

ONE_COLUMN = "the check trains on classes; this estimator takes an indicator of 0 and 1, a column per label"
EXEMPT = dict.fromkeys(
    (
        "check_estimators_dtypes",
        "check_sample_weights_not_an_array",
        "check_sample_weights_pandas_series",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_fit2d_1feature",
    ),
    ONE_COLUMN,
) | {
    "check_classifiers_one_label": "a label that is the same in every row is defined here: it has a probability",
    "check_classifiers_one_label_sample_weights": "the same, after rows without weight are left out",
    "check_classifier_not_supporting_multiclass": ONE_COLUMN
    + "; what it refuses is the form, not the number of classes",
}


def drawn(n=400, seed=0):
    """Three numbers (some missing), a category, and three labels: the third follows the first two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 3, n)
    first = rng.random(n) < expit(2 * X[:, 0] - 1)
    second = rng.random(n) < expit(X[:, 1] + (X[:, 3] == 1))
    third = rng.random(n) < np.where(first ^ second, 0.9, 0.1)
    X[rng.random((n, 4)) < 0.05] = np.nan
    return X, np.column_stack((first, second, third)).astype(int)
