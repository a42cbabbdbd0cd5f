"""Valid requests of every route, one value changed or two: none is answered with a server error or a lost place."""

from __future__ import annotations

import pytest

from tests.effort import repeated
from tests.servers.mutation_run import run

MUTATIONS = repeated(10_000)  # `benchmarks/fuzz.py mutations` sends as many as are asked for


@pytest.mark.thorough
def test_mutated_requests_are_answered_as_documented(tmp_path):
    """No 5xx, problem documents whose places resolve, finite numbers; and afterwards the service answers as before."""
    account = run(tmp_path, MUTATIONS, seed=17)

    assert account.lines() == []
    assert sum(account.statuses.values()) == MUTATIONS
    assert account.statuses[422] > MUTATIONS / 3
    assert account.statuses[200] > MUTATIONS / 10
