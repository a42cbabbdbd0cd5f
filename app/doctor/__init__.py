"""Checks of an installation, and how to fix what they find: `payoff doctor`."""

from app.doctor.examine import examine
from app.doctor.finding import Finding, Level
from app.doctor.machine import impossible

__all__ = ["Finding", "Level", "examine", "impossible"]
