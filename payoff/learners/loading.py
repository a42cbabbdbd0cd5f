"""What takes memory and time, and is not needed to answer: loaded by the first call."""

from typing import Any


def scikit() -> Any:
    """The module `scikit`, loaded by the first fit."""
    from payoff.learners import scikit as module  # noqa: PLC0415 - see there

    return module


def compiled() -> Any:
    """The modules that load the compiler."""
    from payoff.learners import compiled as modules  # noqa: PLC0415 - see there

    return modules
