"""The cache of loaded models, on plain values."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registry.loaded import Cache

USES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([True, True, False])),
    min_size=12,
    max_size=40,
)


@given(
    st.integers(1, 20),
    st.lists(st.integers(1, 8) | st.integers(1, 30), min_size=6, max_size=6),
    USES,
)
def test_the_least_recently_used_goes_first_and_the_bound_gives_way_to_the_biggest_value_only(
    limit, sizes, uses
):
    """Which is kept alone: it would otherwise be loaded for every request. What is being loaded counts, too."""
    cache, kept, loads, evicted = Cache(limit), [], 0, 0
    cache.versions = {f"name {key}": key for key in range(6)}
    for key, loaded in uses:
        is_kept = key in kept
        assert cache.get(f"name {key}") == (f"value {key}" if is_kept else None)
        if loaded:
            assert (
                cache.load(key, sizes[key], lambda key=key: f"value {key}")
                == f"value {key}"
            )
            loads += not is_kept
            while (
                not is_kept
                and kept
                and sum(sizes[each] for each in kept) + sizes[key] > limit
            ):
                del kept[0]
                evicted += 1
        if is_kept or loaded:
            kept = [each for each in kept if each != key] + [key]
        assert {each for each in range(6) if each in cache} == set(kept)
        assert cache.get("unknown") is None
        assert (len(cache), cache.size) == (
            len(kept),
            sum(sizes[each] for each in kept),
        )
        assert (cache.loads, cache.evictions) == (loads, evicted)


@pytest.mark.parametrize("fails", [False, True])
def test_all_who_ask_at_once_wait_for_one_load_or_hear_of_its_failure_which_is_forgotten(
    fails,
):
    cache, may_end = Cache(10), Event()

    def slow():
        may_end.wait(10)
        if fails:
            raise OSError("gone")
        return object()

    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(cache.load, "a", 1, slow) for _ in range(20)]
        may_end.set()
        errors = {str(future.exception()) for future in asked}

    assert errors == {"gone" if fails else "None"}
    assert (cache.size, cache.loads, cache.failures > 0) == (
        (0, 0, True) if fails else (1, 1, False)
    )
    assert fails or len({id(future.result()) for future in asked}) == 1
    assert (cache.load("a", 1, lambda: "A") == "A") == fails


def test_what_is_kept_is_not_held_up_by_a_slow_load():
    cache = Cache(10)
    cache.versions = {"a": "a"}
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
