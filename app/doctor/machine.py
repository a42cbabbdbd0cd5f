"""What is looked at on this machine: settings, the home folder, memory, compiled kernels."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
from pydantic import ValidationError

from app.disks import of_error
from app.doctor.finding import Finding, ok, warning, wrong
from app.settings import Settings, misspelt, refused
from app.usecases.kernels import uncompiled

_MB = 2**20
_LITTLE_MB, _TOO_LITTLE_MB = 2048, 128


def check_settings(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Misspelt variables, and settings that are allowed but unwise."""
    strange = list(_check_names(environment))
    yield from strange
    if settings.admin_key is None:
        yield warning(
            "settings",
            "PAYOFF_ADMIN_KEY is not set: without any key, whoever reaches the service may do everything",
            "set PAYOFF_ADMIN_KEY, unless only you can reach it",
        )
    if settings.signing_key is None:
        yield warning(
            "settings",
            "PAYOFF_SIGNING_KEY is not set: whoever can write where models are kept can run code here",
            "set PAYOFF_SIGNING_KEY before the first model is published, the same for all processes",
        )
    memory = psutil.virtual_memory().total / _MB
    wanted = settings.cache_mb + max(settings.workers, 1) * settings.job_memory_mb
    if wanted > memory:
        yield warning(
            "settings",
            f"models and jobs may take {wanted:,} MB of memory, and this machine has {memory:,.0f}",
            "lower PAYOFF_JOB_MEMORY_MB, PAYOFF_WORKERS or PAYOFF_CACHE_MB",
        )
    if not strange:
        yield ok("settings", f"{len(settings.model_fields_set)} set, none of them misspelt")


def impossible(error: ValidationError, environment: Mapping[str, str]) -> list[Finding]:
    """What is told of settings with which nothing starts."""
    mend = "docs/reference/settings.md lists all settings; nothing else was looked at"
    return [*_check_names(environment), *(wrong("settings", text, mend) for text in refused(error))]


def _check_names(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name, nearest in misspelt(environment).items():
        mend = f"did you mean {nearest}?" if nearest else "docs/reference/settings.md lists all settings"
        yield warning("settings", f"{name} is set, and there is no such setting", mend)


def check_home(settings: Settings) -> Iterator[Finding]:
    """The home folder takes files, and there is room for more."""
    home = settings.home.absolute()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=home, prefix=".doctor-") as probe:
            probe.write(b"probe")
            probe.flush()
    except OSError as error:
        found = of_error(error)
        mend = found.fix if found else f"let PAYOFF_HOME name a folder that uid {os.getuid()} can write"
        yield wrong("home", f"{home} cannot be written: {error.strerror or error}", mend)
        return
    yield from check_room("home", home)


def check_room(check: str, folder: Path) -> Iterator[Finding]:
    """How much room is left on the disk of a folder."""
    free = shutil.disk_usage(folder).free / _MB
    text = f"{folder} can be written, {free:,.0f} MB are free"
    if free < _TOO_LITTLE_MB:
        yield wrong(check, text, "make room: jobs and uploads will fail")
    elif free < _LITTLE_MB:
        yield warning(check, text, "make room, or forget old jobs with PAYOFF_KEEP_JOBS_DAYS and delete data sets")
    else:
        yield ok(check, text)


def check_kernels() -> Iterator[Finding]:
    """The compiled loops of retrieval and acquisition."""
    absent = uncompiled()
    if absent:
        yield warning(
            "kernels",
            f"not compiled yet: {', '.join(absent)}",
            "nothing, if it is a first start: the service compiles them within a minute; it answers 503 meanwhile",
        )
    else:
        yield ok("kernels", "compiled")
