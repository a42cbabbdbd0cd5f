"""Compiled: quadrature in one pass over the items, all nodes at once.

Symbols are the paper's: p_i marginals, q_i = 1 - p_i, k retrieved; t_j, w_j quadrature nodes.

Kernels get checked float64 arrays, allocate only small scratch space and hold no lock. `reassoc` and `contract` let
the compiler add in vector lanes and fuse multiply-adds; nothing here depends on the order of an addition.
"""

from __future__ import annotations

import numpy as np

from app.compiled import vector

BLOCK = 1024  # running sums and powers start afresh here, so rounding grows with BLOCK + n / BLOCK, not with n
CHUNK = 16  # factors multiplied before a logarithm: (e^-40)^16 is still a float
DEAD = 80.0  # a node whose factor is below e^-80 adds nothing any more


@vector
def log_block_products(p, q, s, out):
    """out[b, j] = log Π (q_i + p_i s_j) over the items of block b."""
    product = np.empty(s.size)
    for b in range(out.shape[0]):
        out[b, :] = 0.0
        last = min((b + 1) * BLOCK, p.size)
        for lo in range(b * BLOCK, last, CHUNK):
            product[:] = 1.0
            for i in range(lo, min(lo + CHUNK, last)):
                pi, qi = p[i], q[i]
                for j in range(s.size):
                    product[j] *= qi + pi * s[j]
            for j in range(s.size):
                out[b, j] += np.log(product[j])


@vector
def f_beta_sums(p, q, t, s, weights, out):
    """out[k - 1] = Σ_j weights_j e^(-k t_j) Σ_{i<=k} p_i s_j / (q_i + p_i s_j), k = 1 … n."""
    decay = np.exp(-t)
    base, local, power = np.zeros(t.size), np.empty(t.size), np.empty(t.size)
    alive = t.size
    for lo in range(0, p.size, BLOCK):
        while alive > 1 and lo * t[alive - 1] > DEAD:
            alive -= 1
        for j in range(alive):
            local[j] = 0.0
            power[j] = weights[j] * np.exp(-lo * t[j])
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi, total = p[i], q[i], 0.0
            for j in range(alive):
                tilted = pi * s[j]
                local[j] += tilted / (qi + tilted)
                power[j] *= decay[j]
                total += power[j] * (base[j] + local[j])
            out[i] = total
        for j in range(alive):
            base[j] += local[j]


@vector
def jaccard_sums(p, q, t, s, weights, log_suffix, out):
    """out[k - 1] = Σ_j weights_j e^(-k t_j) Π_{i>k} (q_i + p_i s_j), k = 1 … n.

    log_suffix[b] is the logarithm of the product over all items from block b on.
    """
    decay = np.exp(-t)
    power = np.empty(t.size)
    alive = t.size
    for b in range(log_suffix.shape[0]):
        lo = b * BLOCK
        while alive > 1 and lo * t[alive - 1] - log_suffix[b, alive - 1] > DEAD:
            alive -= 1
        for j in range(alive):
            power[j] = weights[j] * np.exp(log_suffix[b, j] - lo * t[j])
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi, total = p[i], q[i], 0.0
            for j in range(alive):
                power[j] *= decay[j] / (qi + pi * s[j])
                total += power[j]
            out[i] = total


@vector
def additive_values(p, q, s, weights, out):
    """out[i] = p_i Σ_j weights_j s_j / (q_i + p_i s_j)."""
    scaled = weights * s
    for i in range(p.size):
        pi, qi, total = p[i], q[i], 0.0
        for j in range(s.size):
            total += scaled[j] / (qi + pi * s[j])
        out[i] = pi * total


@vector
def tilted_totals(p, q, s, out):
    """out[j] = Σ_i p_i s_j / (q_i + p_i s_j)."""
    local = np.empty(s.size)
    out[:] = 0.0
    for lo in range(0, p.size, BLOCK):
        local[:] = 0.0
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi = p[i], q[i]
            for j in range(s.size):
                local[j] += pi * s[j] / (qi + pi * s[j])
        for j in range(s.size):
            out[j] += local[j]


@vector
def auc_sums(p, q, s, weights, totals, swapped, out):
    """out[k - 1] += Σ_j weights_j (Σ_{i<=k} outside) (Σ_{i>k} inside), inside = p_i s_j / f, outside = q_i / f.

    f = q_i + p_i s_j; totals is the sum of `inside` over all items. Swapped, the first k items give `inside`.
    """
    inside, outside = np.zeros(s.size), np.zeros(s.size)
    near, far = np.empty(s.size), np.empty(s.size)
    for lo in range(0, p.size, BLOCK):
        near[:] = 0.0
        far[:] = 0.0
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi, total = p[i], q[i], 0.0
            for j in range(s.size):
                inverse = 1.0 / (qi + pi * s[j])
                near[j] += pi * s[j] * inverse
                far[j] += qi * inverse
                a, b = inside[j] + near[j], outside[j] + far[j]
                if swapped:
                    total += weights[j] * a * (totals[j] - b)
                else:
                    total += weights[j] * b * (totals[j] - a)
            out[i] += total
        for j in range(s.size):
            inside[j] += near[j]
            outside[j] += far[j]


@vector
def fractional_node(p, q, t, weight, floors, tilt, c, logs, means, out):
    """One node of a fractional-linear loss: out[k] += weight E[numerator e^(-t denominator)], k = 0 … n.

    floors[k] is the least denominator with k retrieved; tilt[0:2] are the factors of an item's labels 0 and 1 while
    it is among the first k, for what it adds above its least, tilt[2:4] after; c = (c0 n, c2, c1 + c3, c3).
    """
    n = p.size
    logs[n] = means[n] = 0.0
    for i in range(n - 1, -1, -1):
        factor = q[i] * tilt[2] + p[i] * tilt[3]
        logs[i] = logs[i + 1] + np.log(factor)
        means[i] = means[i + 1] + p[i] * tilt[3] / factor
    log_prefix, mean = 0.0, 0.0
    for k in range(n + 1):
        exponent = log_prefix + logs[k] - t * floors[k]
        if exponent > -DEAD:
            out[k] += weight * np.exp(exponent) * (c[0] + c[1] * k + c[2] * mean + c[3] * means[k])
        if k < n:
            factor = q[k] * tilt[0] + p[k] * tilt[1]
            log_prefix += np.log(factor)
            mean += p[k] * tilt[1] / factor
