"""All checks at once, each with a bounded time: one that hangs does not hold up the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from app.disks import of_error
from app.doctor import cluster, machine, stores
from app.doctor.finding import Finding, wrong
from app.errors import PayoffError
from app.settings import Settings
from app.stores import open_ports
from app.usecases.ports import Ports

_SECONDS = 20.0  # an unavailable store is noticed within about seven

Check = Callable[[], Iterable[Finding]]


def examine(
    settings: Settings, environment: Mapping[str, str], *, deep: bool = False, seconds: float = _SECONDS
) -> list[Finding]:
    """What every check finds, within `seconds` in all.

    Makes the folders that a start would make, writes and removes a small file in each store, and changes nothing else.
    """
    home = list(machine.check_home(settings))
    checks: dict[str, Check] = {"settings": lambda: machine.check_settings(settings, environment), "home": lambda: home}
    try:
        ports = open_ports(settings)
    except (PayoffError, OSError) as error:
        obstacle = of_error(error)
        detail = error.detail if isinstance(error, PayoffError) else f"{error.filename}: {error.strerror or error}"
        fix = obstacle.fix if obstacle else "docs/reference/settings.md lists all settings"
        checks["stores"] = lambda: [wrong("stores", detail, f"{fix}; no other check was run")]
        return _all(checks, seconds)
    found = _all(checks | _of_stores(settings, ports, deep=deep), seconds)
    ports.database.close()
    return found


def _of_stores(settings: Settings, ports: Ports, *, deep: bool) -> dict[str, Check]:
    return {
        "database": lambda: stores.check_database(ports.database),
        "models": lambda: stores.check_storage("models", settings.models, "PAYOFF_MODELS"),
        "index": lambda: stores.check_models(ports.database, ports.registry, settings, deep=deep),
        "datasets": lambda: stores.check_storage("datasets", settings.datasets_url, "PAYOFF_DATASETS"),
        "decisions": lambda: stores.check_decisions(ports, settings.decisions_url, deep=deep),
        "jobs": lambda: stores.check_jobs(ports),
        "dask": lambda: cluster.check_dask(settings.dask),
    }


def _all(checks: Mapping[str, Check], seconds: float) -> list[Finding]:
    """Every check in a thread of its own, which is left behind where it takes too long."""
    found: dict[str, list[Finding]] = {}

    def run(name: str, check: Check) -> None:
        try:
            found[name] = list(check())
        except Exception as error:  # noqa: BLE001 - a check that breaks is a finding like others
            found[name] = [
                wrong(
                    name,
                    f"the check failed: {type(error).__name__}: {error}",
                    "please report this error",
                )
            ]

    threads = [threading.Thread(target=run, args=check, daemon=True) for check in checks.items()]
    for thread in threads:
        thread.start()
    until = monotonic() + seconds
    for thread in threads:
        thread.join(max(until - monotonic(), 0.0))
    late = f"no answer within {seconds:g} s"
    return [
        line
        for name in checks
        for line in found.get(name, [wrong(name, late, "check whether it can be reached from here")])
    ]
