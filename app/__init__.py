"""Payoff: a prediction service that decides."""

__version__ = "0.1.0"
