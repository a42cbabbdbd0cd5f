"""Payoff: predictions that decide."""

import os

__version__ = "0.1.0"

# Before numba is imported: what is compiled ahead then fits every processor of the architecture, in the image, too.
os.environ.setdefault("NUMBA_CPU_NAME", "generic")
