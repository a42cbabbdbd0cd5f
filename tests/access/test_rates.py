"""Sliding windows: never more than the rate in a window, and never a wait that is too long or too short."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.access.rates import Rate, Windows
from payoff.errors import Invalid


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def windows(clock):
    return Windows(clock)


@pytest.mark.parametrize(
    ("text", "rate"), [("100/second", Rate(100, 1)), ("5/day", Rate(5, 86_400))]
)
def test_rates_are_read_and_written(text, rate):
    assert Rate.parse(text) == rate
    assert str(rate) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0/second",
        "-1/second",
        "5",
        "5/week",
        "5 / second",
        "1e3/second",
        "5/second\n",
    ],
)
def test_what_is_no_rate(text):
    with pytest.raises(Invalid):
        Rate.parse(text)


@settings(deadline=None)
@given(
    amount=st.integers(1, 6),
    seconds=st.sampled_from([1, 60]),
    steps=st.lists(st.floats(0, 2.5), min_size=1, max_size=60),
)
def test_the_wait_is_exact(amount, seconds, steps):
    """Whoever is refused and comes a little before the wait is over is refused again, and a little after it is not."""
    clock = Clock()
    windows, rate = Windows(clock), Rate(amount, seconds)
    for step in steps:
        clock.now += step * seconds / amount
        allowed = windows.take("ann", rate)
        if not allowed.wait:
            continue
        refused_at = clock.now
        clock.now = refused_at + allowed.wait * 0.999 - 1e-6
        if clock.now > refused_at:
            assert deepcopy(windows).take("ann", rate).wait > 0
        clock.now = refused_at + allowed.wait + 1e-6 * seconds
        assert deepcopy(windows).take("ann", rate).wait == 0


@settings(deadline=None)
@given(
    amount=st.integers(1, 6), steps=st.lists(st.floats(0, 3), min_size=1, max_size=80)
)
def test_no_window_sees_more_than_the_rate(amount, steps):
    """Of those that are counted one after another; so over a long time the mean rate is not passed either."""
    clock = Clock()
    windows, rate = Windows(clock), Rate(amount, 10)
    began, passed = clock.now, []
    for step in steps:
        clock.now += step
        if not windows.take("ann", rate).wait:
            passed.append(clock.now)

    for number in range(int((clock.now - began) // 10) + 1):
        assert (
            sum(began + 10 * number <= at < began + 10 * (number + 1) for at in passed)
            <= amount
        )


def test_memory_is_bounded_whoever_asks(windows):
    """Those that asked lately are remembered."""
    for number in range(25_000):
        windows.take(f"address {number}", Rate(1, 60))

    assert not windows.take("address 9999", Rate(1, 60)).wait
    assert windows.take("address 24999", Rate(1, 60)).wait
