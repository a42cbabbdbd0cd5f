"""The compiled loops, made ready beside the service: neither its start nor the first to ask waits for a compiler.

numba keeps what it compiled on disk, for this source and this machine. Loading that takes a fraction of a second,
compiling ten or twenty. So a process of low priority compiles what is absent, once, and ends, at the latest with the
service; the service itself loads numba (60 MB and more) when somebody asks for a set or for the next feature. Who asks
meanwhile waits for the kernels of that package alone, and not for long: then the answer is to come again. Until all are
compiled the service is not ready.
"""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
import threading
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from time import monotonic, sleep

import structlog

import app
from app.errors import NotReady

_log = structlog.get_logger("payoff")
_FOLDER = Path(app.__file__).parent
_COMPILED = {
    "retrieval": ("_dynamic_programming", "_quadrature", "_windows"),
    "acquisition": ("_kernels", "_complete", "_tracing", "_growth", "impurity", "_tree_kernels"),
}
_CACHE = "NUMBA_CACHE_DIR"
_COMPILE = """
import importlib, os, pathlib, sys, threading
def end_with_the_service():
    os.read(0, 1)  # returns when the other end of the pipe is closed, however that came about
    os._exit(1)
threading.Thread(target=end_with_the_service, daemon=True).start()
os.nice(19)
for package, stamp in zip(sys.argv[1::2], sys.argv[2::2]):
    importlib.import_module(f"app.{package}.warming").warm()
    pathlib.Path(stamp).touch()
"""
_PATIENCE = 10.0  # seconds that a request waits; then it is told to come again
_LONGEST = 120.0  # seconds after which nobody waits any more: requests compile what they need themselves
_LOOK = 0.05  # seconds between looks for a stamp


class Kernels:
    """The state of numba's cache on disk."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._absent: dict[str, Path] = {}
        self._began = 0.0
        self._changing = threading.Lock()

    def start(self) -> None:
        """Begin to compile, unless it was done before; returns at once."""
        self._absent = {package: stamp for package in _COMPILED if not (stamp := _stamp(package)).exists()}
        if not self._absent:
            return
        words = [str(word) for item in self._absent.items() for word in item]
        quiet = subprocess.DEVNULL
        try:
            for stamp in self._absent.values():
                stamp.parent.mkdir(parents=True, exist_ok=True)
            self._began = monotonic()
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-c", _COMPILE, *words], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
            )
        except OSError as error:
            _log.warning("the kernels are not compiled beforehand", reason=str(error))

    @property
    def ready(self) -> bool:
        """Whether nobody would have to wait for any package."""
        return not self._compiling(tuple(_COMPILED))

    def wait(self, *packages: str, seconds: float = _PATIENCE) -> None:
        """Return when those packages (by default all) are compiled, or when compiling has ended, well or not.

        Raises NotReady where that takes longer than `seconds`.
        """
        until = monotonic() + seconds
        while self._compiling(packages or tuple(_COMPILED)):
            if monotonic() >= until:
                detail = "the kernels are being compiled for the first time, about half a minute; try again"
                raise NotReady(detail, seconds=round(_PATIENCE))
            sleep(_LOOK)

    def _compiling(self, packages: tuple[str, ...]) -> bool:
        """Whether it is worth waiting for these packages."""
        with self._changing:
            process = self._process
            if process is None or all(stamp.exists() for name, stamp in self._absent.items() if name in packages):
                return False
            late = monotonic() - self._began > _LONGEST
            if process.poll() is None and not late:
                return True
            self._absent = {}  # `stop` ends and forgets the process
            if late:
                _log.warning("the kernels still compile", seconds=_LONGEST)
            elif process.returncode:
                _log.warning("the kernels were not compiled beforehand", status=process.returncode)
            return False

    def stop(self) -> None:
        """End what still compiles."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()  # closes the pipe as well


def compile_now() -> None:
    """Compile what is absent, here and now: for who builds an image."""
    for package in _COMPILED:
        importlib.import_module(f"app.{package}.warming").warm()
        _stamp(package).touch()


def uncompiled() -> list[str]:
    """The packages whose loops are yet to be compiled; call `keep_kernels` before."""
    return [package for package in _COMPILED if not _stamp(package).exists()]


def keep_kernels(home: Path) -> None:
    """Let numba keep what it compiles under `home` where it cannot beside the source; call it before its import."""
    if not all(os.access(source.parent, os.W_OK) for package in _COMPILED for source in _sources(package)):
        os.environ.setdefault(_CACHE, str(home.absolute() / "kernels"))


def _stamp(package: str) -> Path:
    """The file that says "compiled": of this package's sources, by these versions, for this processor."""
    sources = _sources(package)
    folder = Path(os.environ.get(_CACHE) or sources[0].parent / "__pycache__")
    states = [source.stat() for source in sources]
    known = ([(state.st_mtime_ns, state.st_size) for state in states], version("numba"), sys.version, _processor())
    return folder / f"{package}-{sha256(repr(known).encode()).hexdigest()[:16]}.ready"


def _sources(package: str) -> list[Path]:
    return [_FOLDER / package / f"{name}.py" for name in _COMPILED[package]]


def _processor() -> str:
    if os.environ.get("NUMBA_CPU_NAME") == "generic":
        return "any"  # that is what numba compiles for then, wherever it runs
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return repr(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
