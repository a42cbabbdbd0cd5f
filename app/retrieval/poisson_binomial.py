"""The law of the number of relevant items: a sum of independent Bernoulli variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft

from app.errors import Invalid, pointer
from app.retrieval import _dynamic_programming

DP_LIMIT = 3000  # up to here the recursion is 0.6 ms, and precise in every entry, however small
LEAF = 256  # items per leaf of the tree of products


def check_probabilities(given: ArrayLike) -> np.ndarray:
    """A one-dimensional contiguous float64 array within [0, 1]; Invalid names the first bad place, such as `/3`."""
    try:
        p = np.require(given, np.float64, ["C", "A", "W"])  # a read-only array would compile the kernels anew
    except (TypeError, ValueError) as error:
        raise Invalid.at("", "Probabilities must be a flat list of numbers.") from error
    if np.ndim(given) != 1:
        raise Invalid.at("", f"Probabilities must be a flat list of numbers; this has {np.ndim(given)} dimensions.")
    good = (p >= 0.0) & (p <= 1.0)
    if not good.all():
        at = int(np.argmin(good))
        raise Invalid.at(pointer(at), f"A probability must be a number from 0 to 1, not {p[at]}.")
    return p


def poisson_binomial_pmf(p: ArrayLike) -> np.ndarray:
    """Pr(exactly j of the items are relevant), j = 0 … n, for independent probabilities p (n,); returns (n + 1,).

    Up to DP_LIMIT items by the recursion over the items, O(n²): each entry has relative error at most 3 n 2^-53.
    Beyond, by a tree of products with fast Fourier transforms, O(n log² n): absolute error about 1e-16 log2 n, so
    entries below that are noise (never negative). Invalid where a p is outside [0, 1].
    """
    p = check_probabilities(p)
    n = len(p)
    if n <= DP_LIMIT:
        pmf = np.zeros((1, n + 1))
        _dynamic_programming.block_pmfs(p[None, :], pmf)
        return np.asarray(pmf[0])
    leaves = 1 << (-(-n // LEAF) - 1).bit_length()
    width = -(-n // leaves)
    padded = np.zeros(leaves * width)  # an item of probability 0 changes nothing
    padded[:n] = p
    laws = np.zeros((leaves, width + 1))
    _dynamic_programming.block_pmfs(padded.reshape(leaves, width), laws)
    while len(laws) > 1:
        size = 2 * laws.shape[1] - 1
        spectrum = rfft(laws, next_fast_len(size, real=True), axis=1)
        laws = irfft(spectrum[::2] * spectrum[1::2], next_fast_len(size, real=True), axis=1)[:, :size]
    return np.clip(laws[0, : n + 1], 0.0, None)
