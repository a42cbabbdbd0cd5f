"""Signatures as `help` shows them: public names, and each keyword argument by itself."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

T = TypeVar("T", bound=type)


def readable(methods: T) -> T:
    """A class of coroutines with these signatures: `_decide` is published as `decide`."""
    for name, method in vars(methods).items():
        if inspect.iscoroutinefunction(method):
            method.__name__ = name.removeprefix("_")
            method.__qualname__ = f"{methods.__name__}.{method.__name__}"
            method.__signature__ = _expanded(method)
    return methods


def _expanded(method: Any) -> inspect.Signature:
    """The signature, whose `**options: Unpack[Options]` are the fields of `Options`."""
    signature = inspect.signature(method)
    found: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if each.kind is not each.VAR_KEYWORD or not str(each.annotation).startswith("Unpack["):
            found.append(each)
            continue
        fields = method.__globals__[each.annotation.removeprefix("Unpack[").removesuffix("]")].__annotations__
        found += [
            inspect.Parameter(name, each.KEYWORD_ONLY, default=None, annotation=getattr(kind, "__forward_arg__", kind))
            for name, kind in fields.items()
        ]
    return signature.replace(parameters=found)
