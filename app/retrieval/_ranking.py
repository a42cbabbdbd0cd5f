"""Compiled: the order of many probabilities."""

from __future__ import annotations

import numpy as np

from app.compiled import quick

ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0; those of smaller positive numbers are smaller
DROPPED = np.uint64(30)  # low bits that the first pass leaves out
DIGIT = 11  # bits of a digit; three make up the 32 that are left
BUCKETS = 1 << DIGIT
CROWDED = 4  # moves per item in the second pass from which it is given up


@quick
def descending(p, bits, order, ranked):
    """Write the positions of p (n,), largest first, equal ones in their order, and p in this order.

    bits: those of p, uint64; no p is -0.0. A radix sort of the leading 32 bits, then insertion: O(n). False if too many
    numbers agree in these bits; what is written then is no order.
    """
    n = p.size
    counts = np.zeros((3, BUCKETS), np.int64)
    keys, spare_keys, spare = np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.int64)
    for i in range(n):
        key = np.uint32((ONE - bits[i]) >> DROPPED)
        keys[i], order[i] = key, i
        for digit in range(3):
            counts[digit, (key >> (DIGIT * digit)) & (BUCKETS - 1)] += 1
    for digit in range(3):
        start = 0
        for bucket in range(BUCKETS):
            size = counts[digit, bucket]
            counts[digit, bucket] = start
            start += size
        for i in range(n):
            bucket = (keys[i] >> (DIGIT * digit)) & (BUCKETS - 1)
            at = counts[digit, bucket]
            counts[digit, bucket] += 1
            spare_keys[at], spare[at] = keys[i], order[i]
        keys, spare_keys = spare_keys, keys
        order, spare = spare, order
    moves = 0  # after three passes the positions are in the array that was `spare`: it is read, the given one written
    for i in range(n):
        value, j = p[order[i]], i
        while j > 0 and ranked[j - 1] < value:
            ranked[j], spare[j] = ranked[j - 1], spare[j - 1]
            j -= 1
        moves += i - j
        if moves > CROWDED * n:
            return False
        ranked[j], spare[j] = value, order[i]
    return True
