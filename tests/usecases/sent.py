"""What requests send."""

from __future__ import annotations

from app.usecases.matrices import MatrixFields


def matrix_of(benefits=None, cost_matrix=None, actions=None):
    """The fields of a benefit matrix."""
    return MatrixFields(benefits=benefits, cost_matrix=cost_matrix, actions=actions)
