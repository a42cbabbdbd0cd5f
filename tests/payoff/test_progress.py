"""Progress from inside a computation."""

import pytest

from payoff import progress


def test_parts_count_within_their_span():
    """A report of a nested part is placed in the whole, and carries the innermost stage."""
    heard = []
    with progress.listen(lambda fraction, stage: heard.append((fraction, stage))):
        progress.report(0.1, "reading")
        with progress.part(0.2, 0.8, "fitting"):
            progress.report(0.5)
            with progress.part(0.5, 1.0):
                progress.report(1.0, "last fold")
        progress.report(2.0, "done")

    assert [stage for _, stage in heard] == [
        "reading",
        "fitting",
        "fitting",
        "fitting",
        "last fold",
        "done",
    ]
    assert [fraction for fraction, _ in heard] == pytest.approx(
        [0.1, 0.2, 0.5, 0.5, 0.8, 1.0]
    )
