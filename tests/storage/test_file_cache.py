"""Files kept on a disk: never more bytes than allowed, and never a failure."""

import os

import pytest

from app.storage import FileCache


@pytest.fixture
def cache(tmp_path):
    return FileCache(tmp_path / "kept", 300)


def size_of(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


def test_the_least_recently_read_goes_first(cache, tmp_path):
    for age, name in enumerate("abc"):
        cache.keep(name, name.encode() * 100)
        os.utime(tmp_path / "kept" / name, (age, age))
    assert cache.get("a") == b"a" * 100  # from now on the most recent

    cache.keep("d", b"d" * 150)

    assert [cache.get(name) is not None for name in "abcd"] == [True, False, False, True]
    cache.keep("e", b"e" * 301)
    assert cache.get("e") is None
    assert size_of(tmp_path / "kept") == 250


def test_a_disk_that_takes_nothing_fails_nothing(cache, tmp_path, caplog):
    (tmp_path / "kept").write_text("in the way")

    cache.keep("a", b"a")

    assert cache.get("a") is None
    assert "no copy of a file of a model is kept" in caplog.text
