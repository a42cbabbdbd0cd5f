"""The matrices that were checked for requests to one model, for equal requests that follow."""

from threading import Lock

from app.registry.loaded import Loaded
from payoff.decisions.benefit import Prepared

_MAX_MATRICES = 256  # that are kept for a model
_MAX_KEPT_CELLS = 1_000  # of a matrix that is kept


class PreparedMatrices:
    """The last matrices that one model decided by, by the keys of their requests' fields.

    Use `Loaded.once(PreparedMatrices)`: the cache lives as long as the model in memory.
    """

    def __init__(self, model: Loaded) -> None:
        del model  # only the owner
        self._matrices = dict[bytes, Prepared]()
        self._lock = Lock()

    def get(self, key: bytes | None) -> Prepared | None:
        """The matrix of a request with this key, which needs no check again; None where unknown."""
        return None if key is None else self._matrices.get(key)

    def keep(self, key: bytes | None, matrix: Prepared | None) -> None:
        """Keep a matrix for requests with the same key, unless it is large; O(1)."""
        if key is None or matrix is None:
            return
        if matrix.benefits.ndim > 2 or matrix.benefits.size > _MAX_KEPT_CELLS:
            return
        with self._lock:
            if len(self._matrices) >= _MAX_MATRICES:
                del self._matrices[next(iter(self._matrices))]  # the oldest
            self._matrices[key] = matrix
