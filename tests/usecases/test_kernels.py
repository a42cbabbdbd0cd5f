"""Compiling beforehand: once for each source and machine, in a process that is waited for or ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from app.errors import NotReady
from app.usecases import kernels
from app.usecases.kernels import Kernels, keep_kernels

BEGINNING = kernels._COMPILE.partition("os.nice")[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, and something quicker than compiling to do."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_COMPILE", "import pathlib, sys; [pathlib.Path(a).touch() for a in sys.argv[2::2]]")
    return tmp_path / "cache"


def test_who_waits_finds_it_done_and_nobody_does_it_twice(folder):
    first, second = Kernels(), Kernels()
    first.start()
    first.wait()
    assert [file.suffix for file in folder.iterdir()] == [".ready", ".ready"]
    second.start()
    assert second._process is None
    first.stop()


def test_ready_means_that_nobody_would_wait(folder, monkeypatch):
    monkeypatch.setattr(
        kernels, "_COMPILE", "import pathlib, sys; pathlib.Path(sys.argv[2]).touch(); sys.stdin.read(1)"
    )
    state = Kernels()
    assert state.ready  # nothing was begun
    state.start()
    state.wait("retrieval", seconds=30)
    assert not state.ready
    kernels._stamp("acquisition").touch()
    assert state.ready
    state.stop()


def test_another_source_or_machine_is_compiled_for_again(folder, monkeypatch):
    before = kernels._stamp("retrieval")
    monkeypatch.setattr(kernels, "_processor", lambda: "another one")
    assert kernels._stamp("retrieval") != before
    assert kernels._stamp("retrieval").parent == before.parent == folder


def test_what_fails_is_not_waited_for_again(folder, monkeypatch):
    """Then requests compile what they need themselves."""
    monkeypatch.setattr(kernels, "_COMPILE", "raise SystemExit(3)")
    state = Kernels()
    state.start()
    state.wait()
    state.wait()
    state.stop()
    assert list(folder.iterdir()) == []


def test_stopping_ends_it(folder, monkeypatch):
    monkeypatch.setattr(kernels, "_COMPILE", "import time; time.sleep(60)")
    state = Kernels()
    state.start()
    process = state._process
    state.stop()
    assert process.returncode is not None
    state.wait()
    state.stop()


def test_each_package_is_waited_for_alone(folder, monkeypatch):
    """And nobody longer than he should: then he is told to come again."""
    monkeypatch.setattr(
        kernels, "_COMPILE", "import pathlib, sys, time; pathlib.Path(sys.argv[2]).touch(); time.sleep(60)"
    )
    state = Kernels()
    state.start()
    state.wait("retrieval", seconds=30)
    with pytest.raises(NotReady, match="try again") as told:
        state.wait("acquisition", seconds=0.2)
    assert told.value.seconds == 10  # what a client is told to wait
    with pytest.raises(NotReady):
        state.wait(seconds=0.2)
    state.stop()
    state.wait()


def test_only_what_changed_is_compiled_again(folder):
    state = Kernels()
    state.start()
    state.wait()
    state.stop()
    kernels._stamp("acquisition").unlink()
    again = Kernels()
    again.start()
    assert list(again._absent) == ["acquisition"]
    again.wait("retrieval", seconds=0)
    again.wait("acquisition")
    again.stop()


def test_after_long_enough_requests_help_themselves(folder, monkeypatch):
    monkeypatch.setattr(kernels, "_COMPILE", "import time; time.sleep(60)")
    monkeypatch.setattr(kernels, "_LONGEST", 0)
    state = Kernels()
    state.start()
    state.wait(seconds=0)
    state.stop()


def test_what_compiles_ends_with_the_service(folder):
    """Even one that was killed: it cannot say so, but its end of the pipe closes."""
    code = (
        "import time; from app.usecases import kernels\n"
        f"kernels._COMPILE = {BEGINNING + 'import time; time.sleep(60)'!r}\n"
        "state = kernels.Kernels(); state.start(); print(state._process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        child = psutil.Process(int(service.stdout.readline()))
        time.sleep(0.5)
        assert child.is_running()
        service.kill()
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_service_that_can_write_nothing_starts_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    state = Kernels()
    state.start()
    state.wait()


def test_the_cache_goes_home_where_the_source_cannot_hold_it(tmp_path, monkeypatch):
    """And stays where it is wished otherwise."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # so that it will be as it was
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    keep_kernels(tmp_path)
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(os, "access", lambda *_: False)
    keep_kernels(tmp_path)
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "kernels")
    keep_kernels(tmp_path / "other")
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "kernels")


def test_the_service_does_not_load_the_compiler_before_it_is_needed():
    """Its memory is what the idle service can spare."""
    code = "import sys, app.wiring; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("package", kernels._COMPILED)
def test_every_compiled_module_is_known(package):
    """What is not listed would not be compiled again after a change."""
    folder = kernels._FOLDER / package
    compiled = {path.stem for path in folder.glob("*.py") if "import njit" in path.read_text()}
    assert set(kernels._COMPILED[package]) == compiled
