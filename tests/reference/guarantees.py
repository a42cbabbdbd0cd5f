"""Slow twin of `payoff.evidence.guarantees`: Learn then Test, cut by cut and case by case."""

from fractions import Fraction
from math import comb, log, log1p, sqrt


def p_value_of_wrong(wrong: int, n: int, at_most: Fraction) -> Fraction:
    """The probability of at most so many wrong cases among n, each wrong with `at_most`."""
    return sum(
        (
            comb(n, k) * at_most**k * (1 - at_most) ** (n - k)
            for k in range(int(wrong) + 1)
        ),
        Fraction(0),
    )


def shows_by_bets(values, target, error):
    """Whether a gambler against a mean of at least `target` ever has 1 / error of the capital."""
    capital = 0.0
    total = target / 2
    squares = target / 2 * (1 - target / 2)
    for count, value in enumerate(values, 1):
        mean = total / count
        bet = min(
            sqrt(2 * log(1 / error) / (len(values) * squares / count)),
            0.9 / (1 - target),
        )
        capital += log1p(bet * (target - value))
        if capital >= log(1 / error):
            return True
        total += value
        squares += (value - mean) ** 2
    return False


def certified(scores, is_shown, fewest, error):
    """The cuts that are certified: `is_shown(cut, error)` tests the cases that reach a cut.

    `fewest(error)` are the fewest cases of a test.
    """
    n = len(scores)
    few = n < 10 * fewest(error)
    starts = [fewest(error)]
    if not few:
        error /= 3
        starts = [max(-(-n * share // 100), fewest(error)) for share in (5, 20, 50)]
    step = max(1, n // 20)
    falling = sorted(scores, reverse=True)
    cuts = set()
    for start in starts:
        rank = start
        while start <= n:
            cut = falling[min(rank, n) - 1]
            if not is_shown(cut, error):
                break
            cuts.add(cut)
            if rank >= n:
                break
            rank += step
    return cuts
