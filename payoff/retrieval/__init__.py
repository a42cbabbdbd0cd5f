"""The set of items with the smallest expected loss.

Functions are pure: arrays in, frozen dataclasses out; they check no arrays.

`selection.select` chooses one set of independent items, `select_many` one for each of many groups,
`select_class_set` a set of classes per row when one class is true, `sampled.select_sampled` one on
weighted label vectors. `selection.expected_losses` gives the whole curve L_0 … L_n, `losses.LOSSES`
lists the losses. All modules but `losses` load a compiler that takes 60 MB.
"""
