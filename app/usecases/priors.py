"""Class priors of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from app.decisions.priors import as_priors, shift_priors
from app.errors import Flaw, Invalid, pointer


def shifted(
    P: np.ndarray, classes: Sequence[object], base: np.ndarray, priors: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Class priors as sent (K,), the posteriors P (n, K), made with the priors `base` (K,), under them, and warnings;
    Invalid below /priors.
    """
    names = [str(name) for name in classes]
    try:
        used = as_priors(priors, names)
    except Invalid as error:
        raise error.under("/priors") from error
    try:
        return used, *shift_priors(P, base, used)
    except Invalid as error:  # its places are numbers of classes
        flaws = [Flaw(pointer("priors", names[int(flaw.loc[1:])]), flaw.msg) for flaw in error.flaws]
        raise Invalid(error.detail, flaws) from error
