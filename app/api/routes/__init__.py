"""Routes and the documents that they take and return; no logic.

The application includes the `router` of each module here, or its `route` (a DirectRoute).
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def modules() -> Iterator[ModuleType]:
    """The modules of this package, imported, in the order of their names."""
    for name in sorted(module.name for module in iter_modules(__path__)):
        yield import_module(f"{__name__}.{name}")
