"""Logistic regression: scikit-learn's, with preparation inside and every failure visible."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.learners import scikit
from app.learners.logistic import Logistic
from tests.reference.tables import mixed


@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_uncalibrated_it_is_the_pipeline_people_write(K, C):
    """Scaler, one-hot encoder and LogisticRegression fitted on their own agree, with another solver."""
    X, y, categorical = mixed(300, K, 1, missing=0.0)
    numeric = [j for j in range(X.shape[1]) if j not in categorical]
    columns = make_column_transformer((StandardScaler(), numeric), (OneHotEncoder(), list(categorical)))
    twin = make_pipeline(columns, LogisticRegression(C=C, tol=1e-9, max_iter=5000)).fit(X, y)
    model = Logistic(C=C, numeric_transform="none", calibration="none", categorical_features=categorical).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), twin.predict_proba(X), atol=1e-5)
    assert model.converged_


def test_a_fit_that_runs_out_of_steps_says_so(monkeypatch):
    """No warning is lost: `converged_` is False."""
    monkeypatch.setattr(scikit, "MAX_STEPS", 2)
    X, y, categorical = mixed(200, 3, 3)
    assert not Logistic(C=1e3, categorical_features=categorical).fit(X, y).converged_
