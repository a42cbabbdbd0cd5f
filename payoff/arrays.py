"""Array types by element type, for signatures where it matters: compiled kernels and what calls
them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
Ints = NDArray[np.signedinteger[Any]]  # of any width
