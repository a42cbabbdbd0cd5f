"""The compiled loops. Symbols are the paper's: p_i marginals, q_i = 1 - p_i, k retrieved; t_j, w_j quadrature nodes.

Kernels get checked float64 arrays, allocate only small scratch space and hold no lock. `reassoc` and `contract` let
the compiler add in vector lanes and fuse multiply-adds; nothing here depends on the order of an addition.
"""

from __future__ import annotations

import numpy as np
from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

BLOCK = 1024  # running sums and powers start afresh here, so rounding grows with BLOCK + n / BLOCK, not with n
CHUNK = 16  # factors multiplied before a logarithm: (e^-40)^16 is still a float
LANES = 32  # small sets computed at once: 8 lanes take twice as long per set, 64 a third less but outgrow the cache
DEAD = 80.0  # a node whose factor is below e^-80 adds nothing any more


# Dynamic programming.


@compiled
def extend_pmf(pmf, size, p, q):
    """One more Bernoulli variable: pmf[0:size] becomes pmf[0:size + 1], in place."""
    pmf[size] = p * pmf[size - 1]
    for t in range(size - 1, 0, -1):
        pmf[t] = q * pmf[t] + p * pmf[t - 1]
    pmf[0] *= q


@compiled
def block_pmfs(p, out):
    """out[b, 0:m + 1] is the law of the sum of p[b, 0:m]."""
    for b in range(p.shape[0]):
        out[b, 0] = 1.0
        for i in range(p.shape[1]):
            extend_pmf(out[b], i + 1, p[b, i], 1.0 - p[b, i])


@compiled
def tabled_curves(p, tables, prefixes, suffix, curves):
    """For several sets of n items, curves[:, k] = Σ_t Σ_m Pr(t of the first k) Pr(m of the others) tables[:][k; t, m].

    p: (n, lanes), a set per lane. Each of the two tables holds its (k + 1) x (n - k + 1) blocks one after the other.
    O(n³/6) per set. The lane is the last axis of every array, so that inner loops are vector operations, and four
    entries of a table are used at a time, which halves the loads. prefixes, suffix are scratch.
    """
    n, lanes = p.shape
    prefixes[0, 0, :lanes] = 1.0
    suffix[0, :lanes] = 1.0
    curves[:, : n + 1, :lanes] = 0.0
    for k in range(n):
        extend_lanes(prefixes[k], k + 1, p[k], prefixes[k + 1])
    end = tables.shape[1]
    for k in range(n, -1, -1):
        width = n - k + 1
        end -= (k + 1) * width
        for t in range(k + 1):
            at, quads = end + t * width, width // 4 * 4
            before, first, second = prefixes[k, t], curves[0, k], curves[1, k]
            for m in range(0, quads, 4):
                a0, a1, a2, a3 = tables[0, at + m], tables[0, at + m + 1], tables[0, at + m + 2], tables[0, at + m + 3]
                b0, b1, b2, b3 = tables[1, at + m], tables[1, at + m + 1], tables[1, at + m + 2], tables[1, at + m + 3]
                s0, s1, s2, s3 = suffix[m], suffix[m + 1], suffix[m + 2], suffix[m + 3]
                for lane in range(lanes):
                    first[lane] += before[lane] * (s0[lane] * a0 + s1[lane] * a1 + s2[lane] * a2 + s3[lane] * a3)
                    second[lane] += before[lane] * (s0[lane] * b0 + s1[lane] * b1 + s2[lane] * b2 + s3[lane] * b3)
            for m in range(quads, width):
                a, b, s = tables[0, at + m], tables[1, at + m], suffix[m]
                for lane in range(lanes):
                    both = before[lane] * s[lane]
                    first[lane] += both * a
                    second[lane] += both * b
        if k > 0:
            extend_lanes(suffix, width, p[k - 1], suffix)


@compiled
def extend_lanes(old, size, p, new):
    """`extend_pmf` for one law per lane; new may be old."""
    lanes = p.size
    for lane in range(lanes):
        new[size, lane] = p[lane] * old[size - 1, lane]
    for t in range(size - 1, 0, -1):
        now, before, out = old[t], old[t - 1], new[t]
        for lane in range(lanes):
            out[lane] = (1.0 - p[lane]) * now[lane] + p[lane] * before[lane]
    for lane in range(lanes):
        new[0, lane] = (1.0 - p[lane]) * old[0, lane]


@compiled
def descending(p, order):
    """Write to order the positions of p, largest first, equal ones in their order: insertion, for small sets."""
    for i in range(p.size):
        j = i
        while j > 0 and p[order[j - 1]] < p[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@compiled
def best_size(ranked, losses, recalls, low, high, least_recall, least_precision):
    """The size with the least loss among those allowed (-1: none), the loss, precision and recall there."""
    best, loss, precision, recall, expected, share = -1, 0.0, 1.0, 1.0, 0.0, 1.0
    for k in range(ranked.size + 1):
        if k > 0:
            expected += ranked[k - 1]
            share = expected / k
        allowed = low <= k <= high and share >= least_precision and recalls[k] >= least_recall
        if allowed and (best < 0 or losses[k] < loss):
            best, loss, precision, recall = k, losses[k], share, recalls[k]
    return best, loss, precision, recall


@compiled
def small_sets(sets, p, offsets, tables, starts, low, high, least_recall, least_precision, order, k, numbers, curves):
    """The best set of each of `sets` (ascending in size): k[i], -1 where none is allowed.

    numbers[i] = loss, precision, recall. tables[0] and tables[1] hold the loss and the recall of every size of set,
    from starts[size]. Curves are written where curves is not empty: set i's begin at offsets[i] + i.
    """
    last = sets[sets.size - 1]
    widest = offsets[last + 1] - offsets[last]
    prefixes, suffix = np.empty((widest + 1, widest + 1, LANES)), np.empty((widest + 1, LANES))
    ranked, found = np.empty((widest, LANES)), np.empty((2, widest + 1, LANES))
    at = 0
    while at < sets.size:
        n = offsets[sets[at] + 1] - offsets[sets[at]]
        group = 0
        while group < LANES and at + group < sets.size:
            i = sets[at + group]
            if offsets[i + 1] - offsets[i] != n:
                break
            own, ranking = p[offsets[i] : offsets[i + 1]], order[offsets[i] : offsets[i + 1]]
            descending(own, ranking)
            for j in range(n):
                ranked[j, group] = own[ranking[j]]
            group += 1
        ranked[:n, group:] = 0.0
        tabled_curves(ranked[:n], tables[:, starts[n] : starts[n + 1]], prefixes, suffix, found)
        for lane in range(group):
            i = sets[at + lane]
            losses, recalls = found[0, : n + 1, lane], found[1, : n + 1, lane]
            k[i], numbers[i, 0], numbers[i, 1], numbers[i, 2] = best_size(
                ranked[:n, lane], losses, recalls, low[i], high[i], least_recall, least_precision
            )
            if curves.size > 0:
                curves[offsets[i] + i : offsets[i + 1] + i + 1] = losses
        at += group


# Quadrature: one pass over the items, all nodes at once.


@compiled
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


@compiled
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


@compiled
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


@compiled
def additive_values(p, q, s, weights, out):
    """out[i] = p_i Σ_j weights_j s_j / (q_i + p_i s_j)."""
    scaled = weights * s
    for i in range(p.size):
        pi, qi, total = p[i], q[i], 0.0
        for j in range(s.size):
            total += scaled[j] / (qi + pi * s[j])
        out[i] = pi * total


@compiled
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


@compiled
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


@compiled
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


# Means over two independent counts: true positives among the first k, false negatives among the others.
#
# A row of cumulants holds Σ p, Σ q, Σ p q and the cumulants 3 … 15 of a sum of Bernoulli variables.

SPAN = 256  # items between stored windows
WIDTH = 640  # widest window: entries above TRIM at the largest windowed variance (Bennett's inequality gives 565)
TRIM = 1e-24  # entries below this at the ends of a window are dropped, and their mass is counted
POINTS = 8  # nodes of a Gauss rule; its 2 POINTS - 1 moments need the cumulants up to 15
GAUSS_FROM = 625.0  # variance from which a Gauss rule's guaranteed error is below 1e-14
EDGE = 9.5  # standard deviations within which the Gauss rule's integrand is taken as analytic
NEWTON_STEPS = 6  # from a distance below 0.1 the nodes converge in five


@compiled
def add_cumulants(row, p, q, polynomials):
    """Add one Bernoulli variable's cumulants; polynomials[r] are coefficients in v = p q, times q - p for odd r."""
    v, skew = p * q, q - p
    row[0] += p
    row[1] += q
    row[2] += v
    for r in range(3, row.size):
        value = 0.0
        for c in range(polynomials.shape[1] - 1, -1, -1):
            value = value * v + polynomials[r, c]
        row[r] += value * skew if r % 2 else value


@compiled
def span_cumulants(p, q, polynomials, out):
    """out[b] = the cumulants of the items of span b."""
    out[:, :] = 0.0
    for i in range(p.size):
        add_cumulants(out[i // SPAN], p[i], q[i], polynomials)


@compiled
def slide(old, size, p, q, new):
    """Trim the window old[0:size], add a variable, write to new; returns entries skipped, new size, mass dropped."""
    skip, dropped = 0, 0.0
    while size - skip > 1 and old[skip] < TRIM:
        dropped += old[skip]
        skip += 1
    while size - skip > 1 and (old[size - 1] < TRIM or size - skip >= WIDTH):
        dropped += old[size - 1]
        size -= 1
    length = size - skip
    new[0] = q * old[skip]
    for t in range(1, length):
        new[t] = q * old[skip + t] + p * old[skip + t - 1]
    new[length] = p * old[size - 1]
    return skip, length + 1, dropped


@compiled
def window_rule(pmf, size, first, total, variance, stride_from, rule):
    """rule[0:3] = hits, misses, weights of the window, thinned to every stride-th entry; returns their number.

    Where many p are equal, their q = 1 - p are rounded alike and the law's mass drifts from 1; it is divided out.
    """
    stride = max(1, int(np.sqrt(variance) / 2)) if variance >= stride_from else 1
    mass = 0.0
    for t in range(size):
        mass += pmf[t]
    count = 0
    for t in range(0, size, stride):
        rule[0, count] = first + t
        rule[1, count] = total - first - t
        rule[2, count] = pmf[t] * (stride / mass)
        count += 1
    return count


@compiled
def gauss_rule(row, start, rule):
    """rule[0:3] = hits, misses, weights of the Gauss rule with the row's moments; returns its guaranteed error.

    Modified Chebyshev algorithm on E[He_r(Z)], which follow from the cumulants beyond the second; the nodes by Newton's
    method from those of He_8. The integrand is analytic and at most 1 in modulus where hits and misses have positive
    real part; Cauchy's estimate in the disc of radius r and Bennett's inequality give the error.
    """
    sd = np.sqrt(row[2])
    moments, cumulants = np.zeros(2 * POINTS), np.zeros(2 * POINTS)
    for r in range(3, 2 * POINTS):
        cumulants[r] = row[r] / sd**r
    moments[0] = 1.0
    for r in range(3, 2 * POINTS):
        binomial = (r - 1.0) * (r - 2.0) / 2.0  # of r - 1 over j - 1
        for j in range(3, r + 1):
            moments[r] += binomial * cumulants[j] * moments[r - j]
            binomial *= (r - j) / j
    a, b = recurrence(moments)
    norm = 1.0
    for j in range(1, POINTS):
        norm *= b[j]
    for i in range(POINTS):
        x = start[i]
        for _ in range(NEWTON_STEPS):
            before, now, slope_before, slope = 0.0, 1.0, 0.0, 0.0
            for j in range(POINTS):
                shifted = x - a[j]
                slope, slope_before = shifted * slope + now - b[j] * slope_before, slope
                now, before = shifted * now - b[j] * before, now
            x -= now / slope
        rule[0, i] = row[0] + sd * x
        rule[1, i] = row[1] - sd * x
        rule[2, i] = norm / (slope * before)
    radius = min(row[0], row[1]) - EDGE * sd
    u = EDGE / sd
    tail = 8.0 * np.exp(-row[2] * ((1.0 + u) * np.log1p(u) - u))
    return 2.0 * POINTS * norm * (sd / radius) ** (2 * POINTS) + tail


@compiled
def recurrence(moments):
    """The three-term recurrence of the monic orthogonal polynomials, from E[He_0] … E[He_15]."""
    a, b = np.zeros(POINTS), np.zeros(POINTS)
    before, now = np.zeros(2 * POINTS), moments.copy()
    b[0] = 1.0
    for k in range(1, POINTS):
        new = np.zeros(2 * POINTS)
        for j in range(k, 2 * POINTS - k):
            new[j] = now[j + 1] - a[k - 1] * now[j] - b[k - 1] * before[j] * (k > 1) + j * now[j - 1]
        a[k] = new[k + 1] / new[k] - now[k] / now[k - 1]
        b[k] = new[k] / now[k - 1]
        before, now = now, new
    return a, b


@compiled
def mean_quality(front, rows, back, columns, harmonic):
    """Σ Σ weight weight mean(TPR, TNR) over two rules: front holds tp and fp, back holds fn and tn."""
    total = 0.0
    for i in range(rows):
        tp, fp, inner = front[0, i], front[1, i], 0.0
        for j in range(columns):
            fn, tn = back[0, j], back[1, j]
            tpr = tp / (tp + fn) if tp + fn > 0.0 else 1.0
            tnr = tn / (tn + fp) if tn + fp > 0.0 else 1.0
            if harmonic:
                both = tpr + tnr
                value = 2.0 * tpr * tnr / both if both > 0.0 else 0.0
            else:
                value = np.sqrt(tpr * tnr)
            inner += back[2, j] * value
        total += front[2, i] * inner
    return total


@compiled
def suffix_windows(p, q, stored, firsts, sizes, lost):
    """The laws of the sums of all items from each of the last spans on: row 0 of nothing, row r of the last r spans."""
    law, spare = np.zeros(WIDTH), np.zeros(WIDTH)
    law[0], size, first, gone = 1.0, 1, 0, 0.0
    end = p.size
    for r in range(stored.shape[0]):
        stored[r, :size] = law[:size]
        firsts[r], sizes[r], lost[r] = first, size, gone
        if r + 1 < stored.shape[0]:
            begin = (p.size // SPAN - r) * SPAN  # the last span may be empty
            for i in range(end - 1, begin - 1, -1):
                skip, size, out = slide(law, size, p[i], q[i], spare)
                first, gone = first + skip, gone + out
                law, spare = spare, law
            end = begin


@compiled
def laws_within(p, q, polynomials, rows, laws, firsts, sizes, lost):
    """Fill the laws and cumulants of every suffix that begins within a span, from those at its end.

    sizes stay 0 from where the variance reaches GAUSS_FROM.
    """
    for i in range(p.size - 1, -1, -1):
        rows[i] = rows[i + 1]
        add_cumulants(rows[i], p[i], q[i], polynomials)
        sizes[i] = 0
        if sizes[i + 1] > 0 and rows[i, 2] < GAUSS_FROM:
            skip, sizes[i], out = slide(laws[i + 1], sizes[i + 1], p[i], q[i], laws[i])
            firsts[i], lost[i] = firsts[i + 1] + skip, lost[i + 1] + out


@compiled
def rule_of(law, size, first, lost, total, row, stride_from, start, rule):
    """The window's rule where there is a window (size > 0), else Gauss's; returns the number of nodes and the error."""
    if size > 0:
        return window_rule(law, size, first, total, row[2], stride_from, rule), lost
    return POINTS, gauss_rule(row, start, rule)


@compiled
def mean_losses(p, q, ks, harmonic, stride_from, start, polynomials, before, after, stored, firsts, sizes, lost, out):
    """out[:, i] = expected loss with the first ks[i] retrieved (ks ascending), and its error but for rounding.

    before[b], after[b]: cumulants of all items before span b, and from span b on. stored, firsts, sizes, lost: the
    suffix windows, by number of spans from the end.
    """
    n, spans, columns = p.size, after.shape[0] - 1, before.shape[1]
    prefix, spare, size, first, gone = np.zeros(WIDTH), np.zeros(WIDTH), 1, 0, 0.0
    prefix[0] = 1.0
    laws, rows = np.zeros((SPAN + 1, WIDTH)), np.zeros((SPAN + 1, columns))
    law_first, law_size = np.zeros(SPAN + 1, np.int64), np.zeros(SPAN + 1, np.int64)
    law_lost = np.zeros(SPAN + 1)
    front, back, row = np.empty((3, WIDTH)), np.empty((3, WIDTH)), np.empty(columns)
    at = 0
    for b in range(spans):
        lo, hi = b * SPAN, min((b + 1) * SPAN, n)
        if at == ks.size:
            break
        wanted = ks[at] < hi or b == spans - 1
        if wanted:
            end, r = hi - lo, spans - 1 - b
            rows[end], law_size[end] = after[b + 1], 0
            if r < stored.shape[0]:
                laws[end], law_first[end], law_size[end], law_lost[end] = stored[r], firsts[r], sizes[r], lost[r]
            laws_within(p[lo:hi], q[lo:hi], polynomials, rows, laws, law_first, law_size, law_lost)
        row[:] = before[b]
        for k in range(lo, hi + (b == spans - 1)):
            if at < ks.size and ks[at] == k:
                j = k - lo
                m, error = rule_of(prefix, size, first, gone, k, row, stride_from, start, front)
                c, more = rule_of(
                    laws[j], law_size[j], law_first[j], law_lost[j], n - k, rows[j], stride_from, start, back
                )
                out[0, at] = 1.0 - mean_quality(front, m, back, c, harmonic)
                out[1, at] = error + more
                at += 1
            if k < hi and (size > 0 or wanted):
                add_cumulants(row, p[k], q[k], polynomials)
                if size > 0 and row[2] < GAUSS_FROM:
                    skip, size, dropped = slide(prefix, size, p[k], q[k], spare)
                    first, gone = first + skip, gone + dropped
                    prefix, spare = spare, prefix
                else:
                    size = 0
