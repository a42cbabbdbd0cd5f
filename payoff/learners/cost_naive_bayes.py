"""Naive Bayes on categories and binned numbers, for decisions by expected cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field

from payoff.decisions.explanations import Contributions, of_terms
from payoff.learners.base import Learner
from payoff.learners.linear import ROWS_AT_ONCE, softmax, summed
from payoff.learners.parameters import Calibration
from payoff.stored import Stored


@dataclass(frozen=True)
class Places(Stored):
    """The position of each value of a row in one table: by category code, or by a number's bin.

    A feature has `lasts + 1` places from `offsets` on; its last is "missing", where codes that
    training did not contain end, too. A number's bin is how many of its `edges` (edges, numeric
    features; padded with +inf) lie below it.
    """

    numeric: np.ndarray
    edges: np.ndarray
    lasts: np.ndarray
    offsets: np.ndarray

    @classmethod
    def fit(
        cls, X: np.ndarray, weights: np.ndarray, numeric: Sequence[int], bins: int
    ) -> Self:
        """Bins of about equal weight for numbers of rows (n, m); the seen codes of categories."""
        cuts = [_cuts(X[:, j], weights, bins) for j in numeric]
        edges = np.full((max(map(len, cuts), default=0), len(cuts)), np.inf)
        lasts = np.nanmax(X, axis=0, initial=-1.0) + 1.0
        for c, (j, cut) in enumerate(zip(numeric, cuts, strict=True)):
            edges[: len(cut), c] = cut
            lasts[j] = len(cut) + 1.0
        sizes = lasts.astype(np.intp) + 1
        return cls(
            np.array(numeric, dtype=np.intp), edges, lasts, np.cumsum(sizes) - sizes
        )

    def find(self, X: np.ndarray) -> np.ndarray:
        """Places (n, m) for rows (n, m). O(n m edges), in passes over whole columns."""
        codes = X
        if len(self.numeric):
            N = X.take(self.numeric, axis=1)
            if len(N) <= ROWS_AT_ONCE:
                below = (self.edges < N[:, None, :]).sum(axis=1)
            else:
                # A pass for each edge saves the memory of an axis of edges.
                below = sum(edge < N for edge in self.edges)
            binned = np.where(np.isnan(N), np.nan, below)
            if len(self.numeric) == X.shape[1]:
                codes = binned
            else:
                codes = X.copy()
                codes[:, self.numeric] = binned
        # fmin ignores NaN: a missing code goes to the last place.
        places: np.ndarray = np.fmin(codes, self.lasts).astype(np.intp)
        places += self.offsets
        return places


def _cuts(column: np.ndarray, weights: np.ndarray, bins: int) -> np.ndarray:
    """Edges, rising: between all values of up to `bins`, else at quantiles of the column."""
    known = ~np.isnan(column)
    values = np.unique(column[known])
    cuts: np.ndarray = values[:-1] + (values[1:] - values[:-1]) / 2
    if len(values) <= bins:
        return cuts
    # The factor keeps rounding from moving a cut by a row.
    levels = np.arange(1, bins) / bins * (1 - 1e-12)
    quantiles = np.quantile(
        column[known], levels, method="inverted_cdf", weights=weights[known]
    )
    cuts = np.unique(quantiles)
    return np.asarray(cuts[cuts < values[-1]])


@dataclass(frozen=True)
class Tables(Stored):
    """`log p(class)` (K,) and, for every place, `log p(value | class)` (places, K).

    The term is 0 where a value is left out.
    """

    places: Places
    prior: np.ndarray
    terms: np.ndarray
    typical: np.ndarray
    """The mean term (m, K) of each feature in training."""

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        """See `of_terms`."""
        T = self.terms[self.places.find(X)] - self.typical
        return of_terms(T, self.prior + self.typical.sum(axis=0), chosen)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        Z = summed(self.terms, self.places.find(X))
        Z += self.prior
        return softmax(Z)


class CostNaiveBayes(Learner):
    """Naive Bayes on categories and binned numbers; a missing value is left out of the product.

    Its posterior serves the rule `argmin_k sum_q V[q][k] p(C_q) prod_i p(x_i|C_q)`, which is
    expected benefit with -V as the matrix; `predict` is its case of equal costs. `bins` are cut at
    training quantiles. A category that training did not contain is left out, too. Source:
    Benefit-based classification, section on multiclass cost-based naive Bayes (the posterior
    displayed there is misprinted; the rule is right).
    """

    name: ClassVar = "cost_naive_bayes"
    _min_rows_to_calibrate: ClassVar = 10

    alpha: Annotated[
        float,
        Field(ge=1e-10, le=1e6),
        "Rows added to every value of every feature in each class, so that no value counts as"
        " impossible.",
    ] = 1.0
    bins: Annotated[
        int,
        Field(ge=2, le=256),
        "Maximum number of bins of about equal counts for a number.",
    ] = 10
    calibration: Calibration = "auto"

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Tables:
        K = len(self.classes_)
        numeric = sorted(set(range(X.shape[1])) - set(self.categorical()))
        places = Places.fit(X, weights, numeric, int(self.bins))
        columns = places.find(X).T
        ends = places.offsets + places.lasts.astype(
            np.intp
        )  # each feature's place for "missing"
        counts = np.zeros((int(ends[-1]) + 1, K))
        for column in columns:
            np.add.at(counts, (column, codes), weights)
        counts[ends] = 0.0
        owner = np.repeat(np.arange(len(ends)), places.lasts.astype(np.intp) + 1)
        seen = counts.any(axis=1)
        totals = np.zeros((len(ends), K))
        np.add.at(totals, owner[seen], counts[seen] + self.alpha)
        terms = np.zeros_like(counts)
        terms[seen] = np.log((counts[seen] + self.alpha) / totals[owner[seen]])
        sums = np.bincount(codes, weights)
        typical = (
            np.array([weights @ terms[column] for column in columns]) / weights.sum()
        )
        return Tables(places, np.log(sums / sums.sum()), terms, typical)
