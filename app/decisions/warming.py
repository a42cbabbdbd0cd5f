"""Compile the kernel before the first request with limits needs it."""

from __future__ import annotations

import numpy as np

from app.decisions._assignment import assign


def warm() -> None:
    """Run it once, on few rows; seconds when nothing is cached on disk, else milliseconds."""
    assign(np.zeros((2, 3)), np.zeros(3, dtype=np.int64), np.array([0, 1]), np.array([3, 2]))
