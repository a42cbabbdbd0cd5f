"""How loops are compiled: the decorators of every kernel.

numba keeps compiled kernels on disk, by the content of the kernel's file: after a change here,
remove the caches. Kernels are loops over scalars: to assign an array to a slice, to sort or to
reduce in one costs seconds of compiling.
"""

from typing import Any

from numba import njit

kernel = njit(cache=True, nogil=True)
quick = njit(
    cache=True, nogil=True, error_model="numpy"
)  # a division by zero is not checked
# May add in vector lanes and fuse multiply-adds: only where nothing depends on the order of an
# addition.
vector = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}
)


@kernel
def copy(source: Any, target: Any) -> None:
    """Copy the numbers of one array (n,) to another."""
    for i in range(source.shape[0]):
        target[i] = source[i]
