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
        cache.keep(f"models/{name}", name.encode() * 100)
        for file in (tmp_path / "kept").iterdir():
            if file.read_bytes().startswith(name.encode()):
                os.utime(file, (age, age))
    assert cache.get("models/a") == b"a" * 100  # from now on the most recent

    cache.keep("models/d", b"d" * 150)

    assert [cache.get(f"models/{name}") is not None for name in "abcd"] == [True, False, False, True]
    cache.keep("models/e", b"e" * 301)
    assert cache.get("models/e") is None
    assert size_of(tmp_path / "kept") == 250


def test_what_is_kept_again_replaces_what_was(cache, tmp_path):
    for content in (b"old", b"new"):
        cache.keep("models/a", content)
    assert cache.get("models/a") == b"new"
    assert size_of(tmp_path / "kept") == 3


def test_a_disk_that_takes_nothing_fails_nothing(cache, tmp_path, caplog):
    (tmp_path / "kept").write_text("in the way")

    cache.keep("models/a", b"a")

    assert cache.get("models/a") is None
    assert "no copy of models/a is kept" in caplog.text
