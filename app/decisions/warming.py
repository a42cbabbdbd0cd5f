"""Compile the kernels before the first request with limits or explanations needs them."""

from __future__ import annotations

import numpy as np

from app.decisions._assignment import assign
from app.decisions.tree_contributions import Trees, tree_contributions


def warm() -> None:
    """Run each once, on few rows; seconds when nothing is cached on disk, else milliseconds."""
    assign(np.zeros((2, 3)), np.zeros(3, dtype=np.int64), np.array([0, 1]), np.array([3, 2]))
    feature, left, right = np.array([[0, -1, -1], [1, -1, -1], [2, -1, -1]], dtype=np.int32)
    trees = Trees(np.zeros(1, dtype=np.int32), feature, left, right, np.ones(3, dtype=np.float32))
    share, column = np.arange(3, dtype=np.int32), np.zeros(1, dtype=np.intp)
    tree_contributions(trees, lambda _: left[None], np.ones((3, 1)), share, column, 1)
