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


def effective(log, chosen):
    """Kish's effective number of cases, and the one that the chances promise."""
    weights = [
        1 / log.chances[i][chosen[i]] if log.actions[i] == chosen[i] else 0.0
        for i in range(len(chosen))
    ]
    inverse = [1 / log.chances[i][chosen[i]] for i in range(len(chosen))]
    square = sum(w * w for w in weights)
    return (
        sum(weights) ** 2 / square if square else 0.0,
        len(chosen) / (sum(inverse) / len(inverse)),
    )


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
