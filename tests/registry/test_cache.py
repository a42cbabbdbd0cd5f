"""The cache of loaded models, on plain values."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registry.loaded import Cache


def cache_of(limit):
    """A cache in which each key is meant by its own name."""
    cache = Cache(limit)
    cache.meant = {key: key for key in ("a", "b", "c", "big", *range(9))}
    return cache


def test_what_was_loaded_is_kept():
    cache = cache_of(10)

    assert cache.get("a") is None
    assert cache.get("unknown") is None
    assert cache.load("a", 4, lambda: "A") == "A"
    assert cache.get("a") == "A"
    assert cache.load("a", 4, lambda: "B") == "A"
    assert (len(cache), cache.size, cache.loads) == (1, 4, 1)


def test_the_least_recently_used_goes_first():
    cache = cache_of(10)
    for key in "ab":
        cache.load(key, 5, lambda: "value")

    cache.get("a")
    cache.load("c", 5, lambda: "value")

    assert [key for key in "abc" if cache.get(key)] == ["a", "c"]
    assert cache.evictions == 1


@given(st.integers(1, 20), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30)), max_size=40))
def test_the_bound_gives_way_to_the_biggest_value_only(limit, loads):
    """Which is kept alone: it would otherwise be loaded for every request. What is being loaded counts, too."""
    sizes = {}
    cache = cache_of(limit)
    for key, size in loads:
        sizes.setdefault(key, size)

        def loader(key=key):
            assert cache.size + sizes[key] <= max(limit, sizes[key])
            return key

        assert cache.load(key, sizes[key], loader) == key
        assert cache.size <= max(limit, sizes[key])
        assert cache.get(key) == key


def test_twenty_who_ask_at_once_wait_for_one_load():
    cache = Cache(10)
    may_end = Event()

    def slow():
        may_end.wait(10)
        return object()

    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(cache.load, "a", 1, slow) for _ in range(20)]
        may_end.set()
        answers = {id(future.result()) for future in asked}

    assert len(answers) == 1
    assert cache.loads == 1


def test_what_is_kept_is_not_held_up_by_a_slow_load():
    cache = cache_of(10)
    cache.load("a", 1, lambda: "A")
    began, may_end = Event(), Event()

    def slow():
        began.set()
        return may_end.wait(10)

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(cache.load, "b", 1, slow)
        assert began.wait(10)
        assert cache.get("a") == cache.load("a", 1, lambda: "B") == "A"
        cache.retain({"a"})
        assert not loading.done()
        may_end.set()


def test_a_failure_is_raised_to_who_asked_and_is_forgotten():
    cache = Cache(10)
    began, may_end = Event(), Event()

    def failing():
        began.set()
        may_end.wait(10)
        raise OSError("gone")

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.load, "a", 1, failing) for _ in range(4)]
        assert began.wait(10)
        may_end.set()
        for future in asked:
            with pytest.raises(OSError, match="gone"):
                future.result()

    assert (cache.size, cache.failures > 0) == (0, True)
    assert cache.load("a", 1, lambda: "A") == "A"
