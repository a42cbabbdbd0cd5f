"""The compiled loops, made ready beside the service: neither its start nor the first to ask waits for a compiler.

numba keeps what it compiled on disk, for this source and this machine. Loading that takes a fraction of a second,
compiling ten or twenty. So a process of low priority compiles what is absent, once, and ends; the service itself loads
numba (60 MB and more) when somebody asks for a set or for the next feature.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import structlog

import app

_log = structlog.get_logger("payoff")
_FOLDER = Path(app.__file__).parent
_COMPILED = {"retrieval": ("_kernels",), "acquisition": ("_kernels", "_complete", "_tracing", "_growth", "impurity")}
_SOURCES = tuple(_FOLDER / package / f"{name}.py" for package, names in _COMPILED.items() for name in names)
_CACHE = "NUMBA_CACHE_DIR"
_COMPILE = """
import os, pathlib, sys
os.nice(19)
from app.acquisition.warming import warm as warm_acquisition
from app.retrieval import warm as warm_retrieval
warm_retrieval()
warm_acquisition()
pathlib.Path(sys.argv[1]).touch()
"""
_LONGEST = 120.0  # seconds that a request waits; then it compiles what it needs itself


class Kernels:
    """The state of numba's cache on disk."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to compile, unless it was done before; returns at once."""
        stamp = _stamp()
        if stamp.exists():
            return
        command = [sys.executable, "-c", _COMPILE, str(stamp)]
        quiet = subprocess.DEVNULL
        try:
            stamp.parent.mkdir(parents=True, exist_ok=True)
            self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet)  # noqa: S603 - our own command
        except OSError as error:
            _log.warning("the kernels are not compiled beforehand", reason=str(error))

    def wait(self) -> None:
        """Return when compiling has ended, well or not."""
        process = self._process
        if process is None:
            return
        try:
            if process.wait(_LONGEST):
                _log.warning("the kernels were not compiled beforehand", status=process.returncode)
        except subprocess.TimeoutExpired:
            _log.warning("the kernels still compile", seconds=_LONGEST)
        self._process = None

    def stop(self) -> None:
        """End what still compiles."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def keep_kernels(home: Path) -> None:
    """Let numba keep what it compiles under `home` where it cannot beside the source; call it before its import."""
    if not all(os.access(source.parent, os.W_OK) for source in _SOURCES):
        os.environ.setdefault(_CACHE, str(home.absolute() / "kernels"))


def _stamp() -> Path:
    """The file that says "compiled": of these sources, by these versions, for this processor."""
    folder = Path(os.environ.get(_CACHE) or _SOURCES[0].parent / "__pycache__")
    states = [source.stat() for source in _SOURCES]
    known = ([(state.st_mtime_ns, state.st_size) for state in states], version("numba"), sys.version, _processor())
    return folder / f"kernels-{sha256(repr(known).encode()).hexdigest()[:16]}.ready"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return repr(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
