"""The service: Payoff's decisions over HTTP."""

from payoff import __version__

__all__ = ["__version__"]
