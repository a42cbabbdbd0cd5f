"""Uploads are read in a process of their own: whatever a file does to it, the service goes on."""

from __future__ import annotations

import errno
import gzip
import io
import multiprocessing
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tables import isolated, reading
from app.tables.dataset import DataLimits
from app.tables.isolated import Abandoned
from app.tables.store import DatasetStore
from app.tables.upload_request import UploadRequest
from payoff.errors import Invalid, TooLarge
from tests.messages import says
from tests.tables import hostile
from tests.tables.keeping import kept

CSV = b"a,b,y\n1,u,0\n2,v,1\n,u,0\n4,,1\n"
ORDER = UploadRequest(label=("y",))
LIMITS = DataLimits(1000, 10, 10, 10**6)
MB = 2**20


def upload(store, content, is_cancelled=lambda: False):
    with tempfile.TemporaryFile() as file:
        file.write(content)
        return store.upload(file, ORDER, is_cancelled)


def reads(tmp_path, **limits):
    """A store whose readers have such limits."""
    bounds = DataLimits(5_000_000, 10_000, 1000, 512 * MB, **limits)
    return DatasetStore(str(tmp_path / "datasets"), bounds)


def slow(tmp_path):
    """An open file that takes a reader seconds."""
    path = tmp_path / "slow.csv"
    path.write_bytes(b"a,b,y\n" + b"1.25,u,0\n2.5,v,1\n" * 3_000_000)
    return path.open("rb")


def reader_of_this_process():
    """The process that reads an upload now, or None."""
    return next(
        (
            psutil.Process(child.pid)
            for child in multiprocessing.active_children()
            if child.pid
        ),
        None,
    )


@pytest.mark.parametrize("form", ["csv", "gzip", "parquet"])
def test_the_same_as_in_this_process(store, form):
    y = pa.array([0, 1, 0, 1])
    content = {
        "csv": CSV,
        "gzip": gzip.compress(CSV),
        "parquet": hostile.written(
            {
                "a": pa.array([1, 2, None, 4]),
                "b": pa.array(["u", "v", "u", None]),
                "y": y,
            }
        ),
    }[form]

    found = upload(store, content)

    assert found == store.find(found.id) == kept(store, io.BytesIO(CSV), ["y"])
    np.testing.assert_array_equal(store.table(found.id).y, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (
            b"a,y\n1,0\ninf,1\n2,0\n3,1\n",
            Invalid("inf", [says("/file/a", "'a'", "row 3", "inf")]),
        ),
        (
            b"a,y\n" * 10 * MB,
            TooLarge("41,943,040 bytes; an upload may have at most 32,000,000"),
        ),
    ],
)
def test_the_same_errors(store, content, error):
    with pytest.raises(type(error)) as caught:
        upload(store, content)

    assert caught.value.flaws == error.flaws
    assert store.page(10) == ([], None)


@pytest.mark.parametrize("millions", [100, 300])
@pytest.mark.thorough
def test_a_file_that_declares_less_than_it_unpacks_to(tmp_path, millions):
    """A few kilobytes: refused for the memory they need, which this process never takes."""
    content = hostile.long_words(millions)
    assert len(content) < 40_000
    store = reads(tmp_path, reader_bytes=100 * MB)
    before = psutil.Process().memory_info().rss

    with pytest.raises(
        Invalid, match="needs more than the 100 MB of memory allowed"
    ) as caught:
        upload(store, content)

    assert caught.value.flaws[0].loc == "/file"
    assert psutil.Process().memory_info().rss < before + 50 * MB
    assert store.page(10) == ([], None)


@settings(max_examples=30, deadline=None)
@given(st.data())
@pytest.mark.thorough
def test_metadata_that_lies(tmp_path_factory, data):
    """Numbers of the metadata replaced by any others: a data set or a refusal, in bounded time."""
    columns = {
        "a": np.arange(300) % 7 / 2,
        "b": ["u", "v", "w"] * 100,
        "y": [0, 1, 0] * 100,
    }
    content = bytearray(
        hostile.written(
            columns, compression=data.draw(st.sampled_from(["none", "zstd", "snappy"]))
        )
    )
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(
            st.integers(footer if data.draw(st.booleans()) else 4, len(content) - 1)
        )
        content[place : place + 4] = data.draw(st.binary(min_size=1, max_size=4))
    store = DatasetStore(
        str(tmp_path_factory.mktemp("any")),
        DataLimits(1000, 100, 100, 10**6, reader_bytes=64 * MB, reader_seconds=30),
    )
    try:
        found = upload(store, bytes(content))
    except (Invalid, TooLarge):
        return
    assert found.rows > 0


def test_it_may_take_so_long(tmp_path):
    with (
        slow(tmp_path) as file,
        pytest.raises(Invalid, match=r"takes longer than the 0\.2 s allowed"),
    ):
        reads(tmp_path, reader_seconds=0.2).upload(file, ORDER)

    assert not multiprocessing.active_children()


def test_it_ends_with_the_request(tmp_path):
    gone = threading.Event()
    threading.Timer(0.5, gone.set).start()
    with slow(tmp_path) as file, pytest.raises(Abandoned):
        reads(tmp_path).upload(file, ORDER, gone.is_set)

    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM]
)
def test_a_reader_that_crashes(tmp_path, number):
    """The service logs it, answers, and reads the next file."""
    store = reads(tmp_path)

    def crash():
        while (reader := reader_of_this_process()) is None:
            time.sleep(0.01)
        reader.send_signal(number)

    thread = threading.Thread(target=crash)
    thread.start()
    with slow(tmp_path) as file, pytest.raises(Invalid, match="its reader crashed"):
        store.upload(file, ORDER)
    thread.join()

    assert upload(store, CSV).rows == 4


def test_unexpected_errors_name_their_class_alone(store, monkeypatch):
    word = "what it holds"

    def broken(*_):
        raise KeyError(word)

    monkeypatch.setattr(reading, "read_upload", broken)
    message = reading.message(LIMITS, ORDER, io.BytesIO(CSV), io.BytesIO())

    assert message["flaws"] == [("/file", "the file cannot be read (KeyError)")]
    assert word not in message["trace"]


def test_a_full_disk_is_not_the_files_fault(store, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(reading, "read_upload", full)
    message = reading.message(LIMITS, ORDER, io.BytesIO(CSV), io.BytesIO())
    monkeypatch.setattr(isolated, "_message", lambda *_: message)

    with pytest.raises(OSError, match="No space") as caught:
        upload(store, CSV)
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.thorough
def test_a_reader_dies_with_the_service(tmp_path):
    slow(tmp_path).close()
    code = (
        "from app.tables.store import DataLimits, DatasetStore\n"
        "from app.tables.upload_request import UploadRequest\n"
        "if __name__ == '__main__':\n"
        f"    store = DatasetStore({str(tmp_path)!r}, DataLimits(10**8, 100, 100, 10**9))\n"
        f"    store.upload(open({str(tmp_path / 'slow.csv')!r}, 'rb'), UploadRequest(label=('y',)))\n"
    )
    script = tmp_path / "service.py"
    script.write_text(code)
    service = subprocess.Popen([sys.executable, str(script)])
    parents = psutil.Process(service.pid)
    deadline = time.monotonic() + 60
    while not (
        below := [one for child in parents.children() for one in child.children()]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    service.kill()
    service.wait()

    assert not psutil.wait_procs(below, timeout=30)[1]
