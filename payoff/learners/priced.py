"""Learners that ask for priced features, and the one that asks for nothing, compared by rows that a
fit did not see.
"""

from collections.abc import Callable, Mapping

import numpy as np

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.folds import Blocks
from payoff.learners.base import Learner
from payoff.learners.random_forest import FreeForest
from payoff.learners.rows import FoldedRows
from payoff.learners.stepwise import while_worth
from payoff.learners.unseen import log_losses, mean_and_error, near_best, unseen
from payoff.progress import part

FOLDS = 3
"""Models that judge a candidate.

The states that `learn_stops` keeps are no substitute, though they save these fits: order, leaves
and prices' weight were chosen by the same rows (benchmarks/acquisition.md).
"""
Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, Blocks | None], Learner]


def unseen_answers(
    fit: Fit,
    rows: FoldedRows,
    n_classes: int,
    prices: Prices,
    benefits: np.ndarray | None,
    blocks: Blocks | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's probabilities (n, K) by a model that did not see it, and the prices (n,) it pays.

    The models of `fit` ask while that is worth its price by the benefits (K, A), or their mean over
    (n, K, A); without benefits to their end.
    """
    mean = benefits
    if benefits is not None and benefits.ndim == 3:
        mean = benefits.mean(axis=0)

    def fit_and_predict(
        number: int, inside: np.ndarray, outside: np.ndarray
    ) -> np.ndarray:
        kept = None if blocks is None else blocks.take(inside)
        with part(number / FOLDS, (number + 1) / FOLDS):
            model = fit(*rows.without(number), kept)
        X = np.ascontiguousarray(rows.X[outside])
        return np.column_stack(while_worth(model, X, prices, mean))

    answers = unseen(rows.fold, n_classes + 1, fit_and_predict)
    return answers[:, :n_classes], answers[:, n_classes]


def answer_values(
    P: np.ndarray, paid: np.ndarray, codes: np.ndarray, benefits: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The value (n,) of each row's answer, and the price (n,) that is not in it: see `best_of`.

    The value is the benefit of the decision, by (K, A) or (n, K, A), less what is `paid`, and the
    price 0; without benefits the value is minus the log loss, and the price what is paid.
    """
    if benefits is None:
        return -log_losses(P, codes), paid
    gains = row_benefits(codes, decide(P, benefits).choice, benefits)
    return gains - paid, np.zeros(len(paid))


def best_of(
    values: Mapping[str, np.ndarray],
    prices_paid: Mapping[str, np.ndarray],
    weights: np.ndarray,
) -> str:
    """The name with the least mean price, of those within a standard error of the best mean value.

    There is a value and a price paid for each row (n,). Ties go to the first name.
    """
    names = near_best(values, weights)
    return min(names, key=lambda name: mean_and_error(prices_paid[name], weights)[0])


def doubts_of_asking(
    values: Mapping[str, np.ndarray], chosen: str, weights: np.ndarray
) -> list[str]:
    """A sentence where asking for nothing is within a standard error of the best values (n,).

    It has the lead of the `chosen` name, or of the best that asks, over asking for nothing.
    """
    free = FreeForest.name
    asking = [name for name in values if name != free]
    if not asking or free not in near_best(values, weights):
        return []
    if chosen == free:
        chosen = max(asking, key=lambda name: mean_and_error(values[name], weights)[0])
    lead, error = mean_and_error(values[chosen] - values[free], weights)
    side = "above" if lead > 0 else "below"
    sentence = (
        "asking for features is not clearly worth their prices: on rows that the models did not"
        f" see, the mean score of {chosen} is {abs(lead):.4g} {side} that of asking for nothing,"
        f" give or take {error:.2g}"
    )
    return [sentence]
