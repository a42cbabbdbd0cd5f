"""Class priors of the population in use, and posteriors corrected for them."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from payoff.errors import Flaw, Invalid, below, pointer, positions, reject, unknown_at
from payoff.probabilities import TOLERANCE, are_shares, clipped


def as_priors(shares: Mapping[str, float], classes: Sequence[str]) -> np.ndarray:
    """Class priors from shares by class, as float64 (K,) in the order of `classes`.

    Every class must be present, with a share from 0 to 1, and the shares must sum to 1, both up to
    the `TOLERANCE`: people write thirds with six digits. The shares are then scaled to sum to 1
    exactly. Raises Invalid with the place, `/class`, of every flaw.
    """
    reject(_flaws(shares, classes), "invalid priors")
    priors = clipped(np.array([shares[name] for name in classes], dtype=np.float64))
    if not are_shares(priors[None]).all():
        raise Invalid.at(
            "", f"the priors sum to {priors.sum():.8g}; they must sum to 1"
        )
    scaled: np.ndarray = priors / priors.sum()
    return scaled


def under_priors(
    P: np.ndarray,
    classes: Sequence[object],
    trained: np.ndarray,
    priors: Mapping[str, float],
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Class priors (K,) from shares by class, posteriors under these priors (n, K), and warnings.

    The posteriors P (n, K) were predicted under the priors `trained` (K,). Raises Invalid at or
    below /priors.
    """
    names = [str(name) for name in classes]
    with below("/priors"):
        used = as_priors(priors, names)
        unseen = np.flatnonzero((trained <= 0) & (used > 0))
        never = "the class does not occur in training; its share must be 0"
        reject((Flaw(pointer(names[k]), never) for k in unseen), "invalid priors")
    return used, *shift_priors(P, trained, used)


def shift_priors(
    P: np.ndarray, trained: np.ndarray, used: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Posteriors under other class priors than those of training, and warnings: `p_k used_k /
    trained_k`, renormalised.

    Shapes: P (n, K), trained and used (K,), each summing to 1; the answer is (n, K), rows summing
    to 1. It is Bayes' rule where only the priors differ between training and use (label shift). A
    class with `used_k = 0` gets 0. A row whose probability is on such classes alone has no
    information about the other classes: it gets the priors in use, and a warning. A class that does
    not occur in training must have `used_k = 0`. O(n K).
    """
    ratio = np.divide(used, trained, out=np.zeros(len(used)), where=trained > 0)
    shifted = P * ratio
    total = shifted.sum(axis=1, keepdims=True)
    excluded = total[:, 0] <= 0
    if not excluded.any():
        return shifted / total, []
    shifted[excluded] = used
    total[excluded] = 1.0
    count = int(np.count_nonzero(excluded))
    instances = (
        f"{count} of {len(P)} instances {positions(np.flatnonzero(excluded), count)}"
    )
    warning = (
        f"{instances} have only classes with prior 0, according to the model;"
        " their probabilities are the priors"
    )
    return shifted / total, [warning]


def _flaws(shares: Mapping[str, float], classes: Sequence[str]) -> Iterator[Flaw]:
    known = set(classes)
    for name, share in shares.items():
        if name not in known:
            yield unknown_at(pointer(name), "class", name, classes)
        elif not -TOLERANCE <= share <= 1 + TOLERANCE:
            yield Flaw(pointer(name), "a share is a number from 0 to 1")
    yield from (
        Flaw("", f"class {name!r} is missing; its share is 0 if it never occurs")
        for name in classes
        if name not in shares
    )
