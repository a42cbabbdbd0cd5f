"""Kernels are compiled beside the service, so that neither its start nor the first request waits for the compiler.

numba keeps compiled code on disk, for one source and machine. Loading takes a fraction of a second, compiling 10 to
20 s. A process of low priority compiles what is missing, once. The service loads numba (60 MB and more) with the first
request for a set or for the next feature. Such a request waits for the kernels of its own package, but not for long:
then it gets NotReady. The service is ready when all are compiled.
"""

from __future__ import annotations

import fcntl
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
_PACKAGES = ("retrieval", "acquisition", "decisions")
_CACHE = "NUMBA_CACHE_DIR"
_COMPILE = "from app.usecases.kernels import compile_beside; compile_beside()"
_TIMEOUT = 10.0  # seconds that a request waits
_MAX_SECONDS = 120.0  # after which requests compile what they need themselves
_POLL_SECONDS = 0.05


class Kernels:
    """The state of numba's cache on disk."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._missing: dict[str, Path] = {}
        self._began = 0.0
        self._changing = threading.Lock()

    def start(self) -> None:
        """Begin to compile what is missing; returns at once."""
        self._missing = {package: _stamp(package) for package in uncompiled()}
        if self._missing:
            self._began, quiet = monotonic(), subprocess.DEVNULL
            try:
                for stamp in self._missing.values():
                    stamp.parent.mkdir(parents=True, exist_ok=True)
                self._process = subprocess.Popen(  # noqa: S603 - our own command
                    [sys.executable, "-c", _COMPILE], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
                )
            except OSError as error:
                _log.warning("kernels are not compiled ahead", reason=str(error))

    @property
    def ready(self) -> bool:
        """Whether no request would have to wait."""
        return not self._compiling(_PACKAGES)

    def wait(self, *packages: str, seconds: float = _TIMEOUT) -> None:
        """Return when those packages (by default all) are compiled, or when compiling has ended, with success or not.

        Raises NotReady after `seconds`.
        """
        until = monotonic() + seconds
        while self._compiling(packages or _PACKAGES):
            if monotonic() >= until:
                detail = "the kernels are being compiled for the first time, about half a minute; try again"
                raise NotReady(detail, seconds=round(_TIMEOUT))
            sleep(_POLL_SECONDS)

    def _compiling(self, packages: tuple[str, ...]) -> bool:
        """Whether it is worth waiting for these packages."""
        with self._changing:
            process = self._process
            ended = process is None or process.poll() is not None  # asked in any case: it would stay a zombie
            if process is None or all(stamp.exists() for name, stamp in self._missing.items() if name in packages):
                return False
            late = monotonic() - self._began > _MAX_SECONDS
            if not ended and not late:
                return True
            self._missing = {}
            if late or process.returncode:
                _log.warning("kernels are not compiled ahead", status=process.returncode)
            return False

    def stop(self) -> None:
        """End what still compiles."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()  # closes the pipe as well


def uncompiled() -> list[str]:
    """The packages whose kernels are not compiled yet; call `keep_kernels` before."""
    return [package for package in _PACKAGES if not _stamp(package).exists()]


def compile_now() -> None:
    """Compile what is missing in this process, for example when an image is built."""
    for package in uncompiled():
        stamp = _stamp(package)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        with stamp.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the service may be compiling it
            if not stamp.exists():
                importlib.import_module(f"app.{package}.warming").warm()
                stamp.touch()


def compile_beside() -> None:
    """`compile_now` at low priority, in a process that ends when the service closes its standard input, or dies."""

    def end_with_the_service() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=end_with_the_service, daemon=True).start()
    os.nice(19)
    compile_now()


def keep_kernels(home: Path) -> None:
    """Let numba keep compiled code under `home` where it cannot beside the source; call it before numba's import."""
    if not all(os.access(_FOLDER / package, os.W_OK) for package in _PACKAGES):
        os.environ.setdefault(_CACHE, str(home.absolute() / "kernels"))


def _stamp(package: str) -> Path:
    """The file that marks a package as compiled: from its sources, by these versions, for this processor."""
    folder = _FOLDER / package
    states = [(source.stat().st_mtime_ns, source.stat().st_size) for source in sorted(folder.glob("*.py"))]
    known = sha256(repr((states, version("numba"), sys.version, _processor())).encode()).hexdigest()
    return Path(os.environ.get(_CACHE) or folder / "__pycache__") / f"{package}-{known[:16]}.ready"


def _processor() -> str:
    if os.environ.get("NUMBA_CPU_NAME") == "generic":
        return "any"  # numba then compiles for any processor
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return repr(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
