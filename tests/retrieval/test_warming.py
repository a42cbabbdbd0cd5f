"""Compiling ahead of the first request."""

import numpy as np

from app.retrieval import _dynamic_programming, _quadrature, _ranking, _sampled, _windows
from app.retrieval.batches import select_many
from app.retrieval.expected_loss import expected_losses
from app.retrieval.multiclass import select_class_set
from app.retrieval.sampled import WITH_SAMPLES, select_sampled
from app.retrieval.selection import select
from app.retrieval.terms import Terms
from app.retrieval.warming import warm
from tests.reference import losses


def test_after_warming_no_kernel_is_left_to_compile():
    warm()
    modules = (_dynamic_programming, _quadrature, _ranking, _sampled, _windows)
    kernels = [kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "signatures")]

    assert len(kernels) > 15

    frozen = np.linspace(0, 1, 40, dtype=np.float64)
    frozen.flags.writeable = False
    known = [len(kernel.signatures) for kernel in kernels]
    for loss in (losses.f_beta(), *losses.PLAIN):
        select([0.1] * 10, Terms(loss))
        select([0.1] * 500, Terms(loss, min_recall=0.5))
        expected_losses(frozen, loss)
        select_many(frozen, [0, 10, 40], Terms(loss))
        select_class_set([[0.5, 0.5]], Terms(loss))

        if loss.name in WITH_SAMPLES:
            select_sampled([(np.eye(3, dtype=np.uint8), frozen[:3] + 0.1)], np.full((1, 3), 0.5), Terms(loss))

    assert [len(kernel.signatures) for kernel in kernels] == known
