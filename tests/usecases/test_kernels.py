"""Kernels are compiled once for each source and machine, in a process of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import psutil
import pytest

from app.errors import NotReady
from app.usecases import kernels
from app.usecases.kernels import Kernels, keep_kernels

TOUCH = "from app.usecases import kernels as k; [p.touch() for p in {}]"
ENDLESS = (  # the real process, but for what it compiles
    "from app.usecases import kernels as k; import time; k.compile_now = lambda: time.sleep(60); k.compile_beside()"
)
ALL, FIRST = TOUCH.format("map(k._stamp, k._PACKAGES)"), TOUCH.format("[k._stamp('retrieval')]")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, and a process that marks packages as compiled at once."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_COMPILE", ALL)
    return tmp_path / "cache"


def test_kernels_are_compiled_once(folder):
    first, second = Kernels(), Kernels()
    first.start()
    first.wait()
    assert [file.suffix for file in folder.iterdir()] == [".ready"] * len(kernels._PACKAGES)
    second.start()
    assert second._process is None
    first.stop()


def test_ready_means_that_no_request_would_wait(folder, monkeypatch):
    monkeypatch.setattr(kernels, "_COMPILE", f"{FIRST}; import sys; sys.stdin.read(1)")
    state = Kernels()
    assert state.ready  # nothing was begun
    state.start()
    state.wait("retrieval", seconds=30)
    assert not state.ready
    for package in kernels._PACKAGES[1:]:
        kernels._stamp(package).touch()
    assert state.ready
    state.stop()


def test_the_compiler_leaves_no_zombie(folder):
    """Readiness probes ask often enough."""
    state = Kernels()
    state.start()
    os.waitid(os.P_PID, state._process.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(state._process.pid).status() == psutil.STATUS_ZOMBIE
    assert state.ready
    assert not psutil.pid_exists(state._process.pid)
    state.stop()


def test_kernels_are_compiled_again_for_another_machine(folder, monkeypatch):
    before = kernels._stamp("retrieval")
    monkeypatch.setattr(kernels, "_processor", lambda: "another one")
    assert kernels._stamp("retrieval") != before
    assert kernels._stamp("retrieval").parent == before.parent == folder


def test_requests_do_not_wait_after_compiling_has_failed(folder, monkeypatch):
    """Then requests compile what they need themselves."""
    monkeypatch.setattr(kernels, "_COMPILE", "raise SystemExit(3)")
    state = Kernels()
    state.start()
    state.wait()
    state.wait()
    state.stop()
    assert list(folder.iterdir()) == []


def test_stop_ends_the_process(folder, monkeypatch):
    monkeypatch.setattr(kernels, "_COMPILE", "import time; time.sleep(60)")
    state = Kernels()
    state.start()
    process = state._process
    state.stop()
    assert process.returncode is not None
    state.wait()
    state.stop()


def test_each_package_is_waited_for_alone(folder, monkeypatch):
    """And not for longer than the timeout: then the client is told when to try again."""
    monkeypatch.setattr(kernels, "_COMPILE", f"{FIRST}; import time; time.sleep(60)")
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
    assert list(again._missing) == ["acquisition"]
    again.wait("retrieval", seconds=0)
    again.wait("acquisition")
    again.stop()


def test_requests_do_not_wait_for_a_compiler_that_takes_too_long(folder, monkeypatch):
    monkeypatch.setattr(kernels, "_COMPILE", "import time; time.sleep(60)")
    monkeypatch.setattr(kernels, "_MAX_SECONDS", 0)
    state = Kernels()
    state.start()
    state.wait(seconds=0)
    state.stop()


def test_the_compiling_process_ends_with_a_killed_service(folder):
    code = (
        "import time; from app.usecases import kernels\n"
        f"kernels._COMPILE = {ENDLESS!r}\n"
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


def test_a_service_without_a_writable_cache_starts(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    state = Kernels()
    state.start()
    state.wait()


def test_the_cache_is_in_the_home_if_the_source_is_not_writable(tmp_path, monkeypatch):
    """Unless NUMBA_CACHE_DIR names another folder."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # so that it will be as it was
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    keep_kernels(tmp_path)
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(os, "access", lambda *_: False)
    keep_kernels(tmp_path)
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "kernels")
    keep_kernels(tmp_path / "other")
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "kernels")


@pytest.mark.thorough
def test_the_service_does_not_load_the_compiler_at_start():
    """It takes 60 MB of memory."""
    code = "import sys, app.wiring; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_package_with_compiled_functions_is_compiled_ahead():
    sources = kernels._FOLDER.rglob("*.py")
    compiled = {source.parent.name for source in sources if "from numba import" in source.read_text()}
    assert compiled == set(kernels._PACKAGES)


def test_stamps_change_with_any_source_of_the_package(folder, tmp_path, monkeypatch):
    copy = tmp_path / "app" / "retrieval"
    shutil.copytree(kernels._FOLDER / "retrieval", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kernels, "_FOLDER", copy.parent)
    for source in copy.glob("*.py"):
        before = kernels._stamp("retrieval")
        source.write_text(source.read_text() + "\n")

        assert kernels._stamp("retrieval") != before
