"""Checks of this machine: settings, the home folder, memory."""

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

_MB = 2**20
_LITTLE_MB, _TOO_LITTLE_MB = 2048, 128


def check_settings(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Misspelt variables, and settings that are allowed but risky."""
    strange = list(_check_names(environment))
    yield from strange
    if settings.admin_key is None:
        yield warning(
            "settings",
            "PAYOFF_ADMIN_KEY is not set: without keys, any client that reaches the service has all permissions",
            "set PAYOFF_ADMIN_KEY, unless only trusted clients can reach the service",
        )
    if settings.signing_key is None:
        yield warning(
            "settings",
            "PAYOFF_SIGNING_KEY is not set: anyone who can write to PAYOFF_MODELS can run code in the service",
            "set the same PAYOFF_SIGNING_KEY for all processes before the first model is published",
        )
    memory = psutil.virtual_memory().total / _MB
    wanted = settings.cache_mb + max(settings.workers, 1) * settings.job_memory_mb
    if wanted > memory:
        yield warning(
            "settings",
            f"models and jobs may use {wanted:,} MB of memory, but this machine has {memory:,.0f} MB",
            "reduce PAYOFF_JOB_MEMORY_MB, PAYOFF_WORKERS or PAYOFF_CACHE_MB",
        )
    if not strange:
        yield ok("settings", f"{len(settings.model_fields_set)} set, none misspelt")


def impossible(error: ValidationError, environment: Mapping[str, str]) -> list[Finding]:
    """The findings about settings with which the service cannot start."""
    fix = "docs/reference/settings.md lists all settings; no other check was run"
    return [*_check_names(environment), *(wrong("settings", text, fix) for text in refused(error))]


def _check_names(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name, nearest in misspelt(environment).items():
        fix = f"did you mean {nearest}?" if nearest else "docs/reference/settings.md lists all settings"
        yield warning("settings", f"{name} is set, but is not a setting", fix)


def check_home(settings: Settings) -> Iterator[Finding]:
    """The home folder is writable and has free disk space."""
    home = settings.home.absolute()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=home, prefix=".doctor-") as probe:
            probe.write(b"probe")
            probe.flush()
    except OSError as error:
        found = of_error(error)
        fix = found.fix if found else f"set PAYOFF_HOME to a folder that uid {os.getuid()} can write to"
        yield wrong("home", f"{home} is not writable: {error.strerror or error}", fix)
        return
    yield from check_room("home", home)


def check_room(check: str, folder: Path) -> Iterator[Finding]:
    """Free disk space of a folder."""
    free = shutil.disk_usage(folder).free / _MB
    text = f"{folder} is writable, {free:,.0f} MB are free"
    if free < _TOO_LITTLE_MB:
        yield wrong(check, text, "make room: jobs and uploads will fail")
    elif free < _LITTLE_MB:
        yield warning(check, text, "make room: set PAYOFF_KEEP_JOBS_DAYS, or delete data sets")
    else:
        yield ok(check, text)
