"""After `python -m payoff.kernels` answering compiles nothing more; in a process in which nothing
else has compiled.
"""

import subprocess
import sys

import numpy as np

from payoff.acquisition import extra_trees, nodes
from payoff.acquisition.forest import states, trace
from payoff.kernels import CALLS
from tests.payoff.acquisition.test_chain import chain
from tests.reference.forests import random_case

KERNELS = (extra_trees.grow_extra, nodes.add_values, states, trace)


def test_compiling_ahead_covers_growing_and_answering():
    subprocess.run([sys.executable, "-m", __name__], check=True)


def answer_after_compiling():
    for call in CALLS.values():
        call()
    compiled = [kernel.signatures for kernel in KERNELS]
    model, X, prices = chain(0)
    model.posterior(X)
    model.step(X, np.zeros(X.shape), prices)
    forest, _, prices, X, _ = random_case(0)
    forest.posterior(X)
    forest.step(X, np.zeros(X.shape), prices, 3.0)
    forest.travel(X, prices, 3.0)
    assert [kernel.signatures for kernel in KERNELS] == compiled


if __name__ == "__main__":
    answer_after_compiling()
