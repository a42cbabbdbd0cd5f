"""The seam to the modules that take memory and time and are not needed to answer.

The modules `loading.scikit` (scikit-learn, SciPy) and `loading.compiled` (the compiler) are loaded
at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from payoff.learners import compiled, scikit

    __all__ = ["compiled", "scikit"]
else:
    _MODULES = ("compiled", "scikit")

    def __getattr__(name):  # noqa: ANN001, ANN202 - type checkers see the imports above
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = globals()[name] = import_module(f"payoff.learners.{name}")
        return module
