"""The Python client of Payoff: actions, sets and questions with the best expected payoff."""

from payoff_client.client import AsyncPayoff, Payoff
from payoff_client.deciding import Decisions
from payoff_client.documents import FileStakes, Report, Stakes
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
from payoff_client.transport import __version__

__all__ = [
    "AsyncPayoff",
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
