"""Slow twins of learning from rewards and of judging policies: definitions, row by row."""

import itertools

import numpy as np
from scipy.special import stdtrit


def value(log, chosen):
    """The doubly robust mean reward of a policy."""
    total = 0.0
    for i in range(len(chosen)):
        total += log.expected[i][chosen[i]]
        if log.actions[i] == chosen[i]:
            error = log.rewards[i] - log.expected[i][log.actions[i]]
            total += error / log.chances[i][chosen[i]]
    return total / len(chosen)


def effective(log, chosen, counts=None, groups=None):
    """Kish's effective number of cases, or groups, and the one that the chances promise.

    `counts` are how much each case counts.
    """
    n = len(chosen)
    counts = [1.0] * n if counts is None else counts
    groups = range(n) if groups is None else groups
    total = square = promised = 0.0
    for group in set(groups):
        weight = 0.0
        for i in range(n):
            if groups[i] == group and log.actions[i] == chosen[i]:
                weight += counts[i] / log.chances[i][chosen[i]]
        total += weight
        square += weight**2
    for i in range(n):
        promised += counts[i] ** 2 / log.chances[i][chosen[i]]
    promised = sum(counts) ** 2 / promised * len(set(groups)) / n
    return total**2 / square if square else 0.0, promised


def parts_of_groups(values, counts, groups):
    """The weighted mean, and around it what each group deviates: numbers with this mean."""
    mean = sum(v * w for v, w in zip(values, counts, strict=True)) / sum(counts)
    parts = []
    for group in sorted(set(groups)):
        rows = [i for i in range(len(values)) if groups[i] == group]
        deviation = sum(counts[i] * (values[i] - mean) for i in rows)
        parts.append(mean + deviation * len(set(groups)) / sum(counts))
    return parts


def johnson(values):
    """Johnson's interval of a mean: its centre moves by the skewness."""
    n = len(values)
    mean = sum(values) / n
    second = sum((v - mean) ** 2 for v in values) / n
    third = sum((v - mean) ** 3 for v in values) / n
    centre = mean + third / (6 * second * n)
    reach = stdtrit(n - 1, 0.975) * (second / (n - 1)) ** 0.5
    return centre - reach, centre + reach


def careful(values):
    """Johnson's interval, and its ends with one extreme case more."""
    mean = sum(values) / len(values)
    plain = johnson(values)
    low = johnson([*values, mean - 2 * (mean - min(values))])
    high = johnson([*values, mean + 2 * (max(values) - mean)])
    return min(plain[0], low[0]), max(plain[1], high[1])


def doubly_robust(actions, rewards, chances, level):
    """Each row's rewards of all actions."""
    robust = [list(row) for row in level]
    for i, a in enumerate(actions):
        robust[i][a] += (rewards[i] - level[i][a]) / max(chances[i][a], 0.01)
    return np.array(robust)


def non_negative(columns, numbers, weights):
    """The least weighted squared error over all sets of columns with weights of at least 0."""
    k = columns.shape[1]
    root = np.sqrt(weights)
    best = np.zeros(k)
    least = float(weights @ numbers**2)
    for size in range(1, k + 1):
        for used in itertools.combinations(range(k), size):
            part = columns[:, used] * root[:, None]
            solution = np.linalg.lstsq(part, numbers * root)[0]
            error = float(np.sum((numbers * root - part @ solution) ** 2))
            if (solution >= 0).all() and error < least:
                least = error
                best = np.zeros(k)
                best[list(used)] = solution
    return best


def expected(model, x):
    """Expected rewards of a row x (1, m): the level by the log's shares, and contrasts."""
    actions = range(len(model.shares))
    answers = [part.values(x)[0] for part in model.parts]
    level = [
        model.mean
        + sum(
            w * (answer[a] - model.mean)
            for w, answer in zip(model.levels, answers, strict=True)
        )
        for a in actions
    ]
    contrast = [
        sum(c * answer[a] for c, answer in zip(model.contrasts, answers, strict=True))
        for a in actions
    ]
    q = model.shares
    middle = sum(q[b] * level[b] for b in actions)
    balance = sum(q[b] * contrast[b] for b in actions)
    return [middle + contrast[a] - balance for a in actions]


def out_of_bag(forest, bags, X, Y, weights):
    """Each row's mean over the trees without it, of the weighted mean of its leaf's bag."""
    leaves = forest.leaves(X)
    unseen = np.empty(Y.shape)
    for i in range(len(X)):
        answers = []
        for t in range(bags.shape[1]):
            if bags[i, t] and not bags[i].all():
                continue
            near = [
                j for j in range(len(X)) if bags[j, t] and leaves[j, t] == leaves[i, t]
            ]
            answers.append(np.average(Y[near], axis=0, weights=weights[near]))
        unseen[i] = np.mean(answers, axis=0)
    return unseen


def scores(log, i, action):
    """The doubly robust reward of an action in a case."""
    value = log.expected[i][action]
    if log.actions[i] == action:
        value += (log.rewards[i] - value) / log.chances[i][action]
    return value


def gain_of_treating(log, chosen, baseline, fold, share):
    """Per case, of treating this share of each fold: by uplift, equals with the same chance."""
    total = 0.0
    for number in set(fold):
        cases = [i for i in range(len(chosen)) if fold[i] == number]
        uplift = {
            i: log.expected[i][chosen[i]] - log.expected[i][baseline] for i in cases
        }
        places = share * len(cases)
        for level in sorted(set(uplift.values()), reverse=True):
            equals = [i for i in cases if uplift[i] == level]
            part = min(max(places, 0.0), len(equals))
            for i in equals:
                effect = scores(log, i, chosen[i]) - scores(log, i, baseline)
                total += part / len(equals) * effect
            places -= len(equals)
    return total / len(chosen)


def area(log, chosen, baseline, fold):
    """Between the curve and its chord; the curve is straight between the ends of equals."""
    ends = {0.0, 1.0}
    for number in set(fold):
        size = sum(one == number for one in fold)
        ends |= {k / size for k in range(size + 1)}
    knots = sorted(ends)
    heights = [gain_of_treating(log, chosen, baseline, fold, knot) for knot in knots]
    under = 0.0
    for k in range(1, len(knots)):
        under += (knots[k] - knots[k - 1]) * (heights[k] + heights[k - 1]) / 2
    return under - heights[-1] / 2


def calibration(log, chosen, bins):
    """Rows, rows with the action, mean predicted and mean observed reward of each bin."""
    predicted = [log.expected[i][chosen[i]] for i in range(len(chosen))]
    edges = [np.quantile(predicted, k / bins) for k in range(1, bins)]
    lines = []
    for k in range(bins):
        rows = [
            i
            for i in range(len(chosen))
            if sum(predicted[i] >= edge for edge in edges) == k
        ]
        if rows:
            acted = [i for i in rows if log.actions[i] == chosen[i]]
            observed = np.mean([scores(log, i, chosen[i]) for i in rows])
            mean = np.mean([predicted[i] for i in rows])
            lines.append((len(rows), len(acted), mean, observed))
    return lines
