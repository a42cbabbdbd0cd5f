"""Errors of fits as errors of the request that asked for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from payoff.errors import Invalid

_EXTREME = "its parameters are too extreme for these data"


@contextmanager
def placed(learner: str = "/learner", features: Sequence[str] = ()) -> Iterator[None]:
    """Errors of an estimator as errors of the request: Invalid at the benefits, or at the learner's
    parameters, which may be so extreme that the arithmetic fails.
    """
    try:
        yield
    except (np.linalg.LinAlgError, OverflowError) as error:
        raise Invalid.at(
            learner, f"the fit broke down ({error}); {_EXTREME}"
        ) from error
    except Invalid as error:
        loc = error.flaws[0].loc
        message = error.flaws[0].msg
        if loc.startswith("/benefits"):
            raise
        if loc.startswith("/columns/"):
            message = (
                f"feature {features[int(loc.removeprefix('/columns/'))]!r}: {message}"
            )
            raise Invalid.at(learner, message) from error
        raise error.under(learner) from error


def checked_posterior(estimator: Any, X: np.ndarray) -> np.ndarray:
    """Probabilities (n, K) of rows (n, m); Invalid where the fit gave none."""
    return finite(estimator.posterior(X), "probabilities")


def finite(answers: np.ndarray, quantity: str) -> np.ndarray:
    """The answers of an estimator; Invalid where some are NaN or infinite."""
    if not np.isfinite(answers).all():
        raise Invalid.at("", f"the fit gave no usable {quantity}; {_EXTREME}")
    return answers
