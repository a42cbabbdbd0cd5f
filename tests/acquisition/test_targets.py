"""What a right class must be worth for a mean cost or an error, where neither changes all one way with the worth."""

import numpy as np
import pytest

from app.acquisition.chain import ChainExperience
from app.acquisition.session import Prices
from app.acquisition.stopping import _CHEAP, _DEAR, _SIZES, size_for
from app.errors import Invalid

pytestmark = pytest.mark.thorough


def walked(known, prices, size):
    rows, eye = np.arange(len(known)), np.eye(known.P.shape[2])
    stake, _ = known.valued(size * eye)
    ends, paid = known.ends(known.worth(size * eye, prices), stake, prices)
    wrong = known.P.argmax(axis=2) != known.y[:, None]
    return paid[rows, ends].mean(), wrong[rows, ends].mean()


@pytest.mark.parametrize("seed", range(12))
def test_what_any_size_reaches_is_reached(seed):
    """Small and noisy experience: its error is not the least where all is asked for."""
    random = np.random.default_rng(seed)
    n, S = 60, 4
    P = random.dirichlet([1, 1], size=(n, S + 1))
    P[:, 0] = 0.5
    y = (random.random(n) < P[:, random.integers(1, S + 1), 1]).astype(int)
    known = ChainExperience.of(P, y, np.zeros((n, S), dtype=bool), list(range(S)), S)
    prices = Prices.of(random.integers(1, 5, S).astype(float))
    sizes = np.geomspace(_CHEAP * prices.cost.min(), _DEAR * prices.cost.sum(), _SIZES)
    costs, errors = np.array([walked(known, prices, size) for size in sizes]).T

    for wish in np.unique(errors):
        cost, error = walked(known, prices, size_for(known, prices, "error", wish))
        assert error <= wish
        assert cost <= costs[errors <= wish].min() + 1e-9
    for wish in np.unique(costs):
        cost, _ = walked(known, prices, size_for(known, prices, "cost", wish))
        assert costs[costs <= wish].max() - 1e-9 <= cost <= wish + 1e-9
    with pytest.raises(Invalid):
        size_for(known, prices, "error", errors.min() - 1e-9)
