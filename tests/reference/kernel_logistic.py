"""Kernel logistic regression as it is written down, in loops, for a handful of rows."""

import math

import numpy as np
from scipy.optimize import minimize


def kernel(name, gamma, degree, a, b):
    if name == "rbf":
        return math.exp(-gamma * sum((s - t) ** 2 for s, t in zip(a, b, strict=True)))
    product = sum(s * t for s, t in zip(a, b, strict=True))
    return product if name == "linear" else (gamma * product + 1) ** degree


def loss(alpha, intercepts, K, y, weights, C):
    """Penalised deviance of the SYMMETRIC model: a function for every class, none a reference."""
    n, classes = alpha.shape
    total = 0.0
    for i in range(n):
        f = [intercepts[k] + sum(alpha[j, k] * K[j][i] for j in range(n)) for k in range(classes)]
        top = max(f)
        total += weights[i] * (top + math.log(sum(math.exp(v - top) for v in f)) - f[y[i]])
    for k in range(classes):
        for i in range(n):
            for j in range(n):
                total += alpha[i, k] * alpha[j, k] * K[i][j] / (2 * C)
    return total


def binary_loss(alpha, intercept, K, y, weights, C):
    """Penalised deviance with one function, the log-odds of class 1, as scikit-learn penalises two classes."""
    n = len(alpha)
    total = 0.0
    for i in range(n):
        f = intercept + sum(alpha[j] * K[j][i] for j in range(n))
        total += weights[i] * (math.log1p(math.exp(f)) - y[i] * f)
    return total + sum(alpha[i] * alpha[j] * K[i][j] for i in range(n) for j in range(n)) / (2 * C)


def probabilities(X, y, weights, name, gamma, degree, C):
    """Fitted probabilities (n, K) at the training rows, by a general minimiser with numeric derivatives."""
    n, classes = len(X), max(y) + 1
    K = [[kernel(name, gamma, degree, a, b) for b in X] for a in X]
    if classes == 2:
        found = minimize(lambda v: binary_loss(v[:n], v[n], K, y, weights, C), np.zeros(n + 1), options={"gtol": 1e-7})
        f = np.array(K) @ found.x[:n] + found.x[n]
        return np.column_stack([1 / (1 + np.exp(f)), 1 / (1 + np.exp(-f))])
    size = n * classes

    def value(v):
        return loss(v[:size].reshape(n, classes), v[size:], K, y, weights, C)

    found = minimize(value, np.zeros(size + classes), options={"gtol": 1e-7})
    F = np.array(K) @ found.x[:size].reshape(n, classes) + found.x[size:]
    P = np.exp(F - F.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)
