"""The Python client of Payoff, a service that decides: actions, sets and questions with the best expected payoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from payoff_client.answers import Decisions, Report
from payoff_client.client import AsyncPayoff, Payoff
from payoff_client.errors import (
    Conflict,
    Flaw,
    Forbidden,
    Invalid,
    InvalidAnswer,
    JobFailed,
    NotFound,
    PayoffError,
    PayoffWarning,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from payoff_client.model import Model
from payoff_client.stakes import FileStakes, Stakes
from payoff_client.version import __version__

if TYPE_CHECKING:
    from payoff_client.estimator import BenefitClassifier

__all__ = [
    "AsyncPayoff",
    "BenefitClassifier",
    "Conflict",
    "Decisions",
    "FileStakes",
    "Flaw",
    "Forbidden",
    "Invalid",
    "InvalidAnswer",
    "JobFailed",
    "Model",
    "NotFound",
    "Payoff",
    "PayoffError",
    "PayoffWarning",
    "RateLimited",
    "Report",
    "Stakes",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """`BenefitClassifier` needs scikit-learn, which is imported with it."""
    if name == "BenefitClassifier":
        from payoff_client.estimator import BenefitClassifier  # noqa: PLC0415 - see above

        return BenefitClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
