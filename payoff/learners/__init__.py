"""Estimators in the manner of scikit-learn, one to a file."""
