"""Pydantic's findings in this service's words: what is wrong with which value, then what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from app.errors import MAX_ERRORS, Flaw, pointer, unknown
from app.registry.card import NAME
from app.registry.snapshot import NUMBER
from app.text import counted

_MAX_SHOWN = 64  # characters of a name or value
_KEY = "[key]"  # the last step where pydantic finds fault with a name of an object
_NAME = "1 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or digit"
_PATTERNS = {
    f"^{NAME}$": f"be {_NAME}",
    f"^{NAME}(:{NUMBER})?$": f"be a name ({_NAME}), or name:1",
    f"^{NAME}(:{NUMBER}|@{NAME})?$": f"be a name ({_NAME}), name:3 or name@alias",
}

Context = Mapping[str, Any]
# What a value must, by pydantic's type of error; `test_wording.py` finds the types that requests can cause.
_ALLOWED: dict[str, Callable[[Context], str]] = {
    "bool_parsing": lambda _: "be true or false",
    "bool_type": lambda _: "be true or false",
    "dict_type": lambda _: "be an object",
    "finite_number": lambda _: "be a finite number",
    "float_parsing": lambda _: "be a number",
    "float_type": lambda _: "be a number",
    "greater_than": lambda context: f"be greater than {context['gt']}",
    "greater_than_equal": lambda context: f"be at least {context['ge']}",
    "int_from_float": lambda _: "be an integer",
    "int_parsing": lambda _: "be an integer",
    "int_parsing_size": lambda _: "be an integer of fewer digits",
    "int_type": lambda _: "be an integer",
    "less_than": lambda context: f"be less than {context['lt']}",
    "less_than_equal": lambda context: f"be at most {context['le']}",
    "list_type": lambda _: "be a list",
    "literal_error": lambda context: f"be {context['expected']}",
    "model_attributes_type": lambda _: "be an object",
    "model_type": lambda _: "be an object",
    "string_pattern_mismatch": lambda context: _PATTERNS.get(context["pattern"], "have only the documented characters"),
    "string_too_long": lambda context: f"have at most {counted(context['max_length'], 'character')}",
    "string_too_short": lambda context: f"have at least {counted(context['min_length'], 'character')}",
    "string_type": lambda _: "be a string",
    "too_long": lambda context: f"have at most {counted(context['max_length'], 'item')}",
    "too_short": lambda context: f"have at least {counted(context['min_length'], 'item')}",
}


def flaws_of(details: Sequence[ErrorDetails | Any], sent: Any, form: type[BaseModel]) -> tuple[Flaw, ...]:
    """Pydantic's first findings about `sent`, parsed as `form`, each with a pointer into `sent`."""
    flaws: list[Flaw] = []
    meant = (found for found in details if _is_meant(form, found["loc"], sent))
    for loc, same in groupby(islice(meant, MAX_ERRORS), lambda found: _steps(found["loc"], sent, found["type"])):
        findings = list(same)
        fields = [name for found in findings for name in _fields(form, found["loc"][:-1])]
        flaws.append(Flaw(pointer(*loc), _message(findings, loc, _value(sent, loc), fields)))
    return tuple(dict.fromkeys(flaws))


def flaws_of_parameters(details: Sequence[Any]) -> tuple[Flaw, ...]:
    """The same of path, query and header parameters: the name is the place."""
    return tuple(
        Flaw(pointer(*found["loc"][1:2]), _message([found], found["loc"][1:], found["input"], ()))
        for found in islice(details, MAX_ERRORS)
    )


def _steps(steps: Sequence[int | str], sent: Any, kind: str) -> tuple[int | str, ...]:
    """The steps that exist in `sent`: pydantic adds the names of the types that it tried on the way."""
    found: list[int | str] = []
    for number, step in enumerate(steps):
        here = (isinstance(sent, dict) and step in sent) or (
            isinstance(sent, list) and isinstance(step, int) and step < len(sent)
        )
        if here:
            sent = sent[step]
        if here or (kind == "missing" and number == len(steps) - 1):
            found.append(step)
    return tuple(found)


def _value(sent: Any, loc: Sequence[int | str]) -> Any:
    """The value at `loc`, None where it is missing."""
    for step in loc:
        if isinstance(sent, dict) and step not in sent:
            return None
        sent = sent[step]
    return sent


def _fields(form: type[BaseModel], steps: Sequence[int | str]) -> Iterator[str]:
    """The names that an object takes to which the steps lead."""
    forms = [form]
    for step in steps:
        forms = _inner(forms, step)
    return (name for each in forms for name in each.model_fields)


def _is_meant(form: type[BaseModel], steps: Sequence[int | str], sent: Any) -> bool:
    """Whether the steps lead through those alternatives of unions that have the most fields in common with `sent`."""
    forms = [form]
    for step in steps:
        inner = _inner(forms, step)
        if isinstance(sent, dict) and step in sent:
            sent = sent[step]
        elif isinstance(sent, dict) and [each.__name__ for each in inner] == [step]:
            names = sent.keys()
            if inner[0] is not max(forms, key=lambda each: len(each.model_fields.keys() & names)):
                return False
        forms = inner
    return True


def _inner(forms: list[type[BaseModel]], step: int | str) -> list[type[BaseModel]]:
    """The models that one step leads to: the alternative of that name, or the alternatives of that field's type."""
    named = [each for each in forms if each.__name__ == step]
    annotations = [each.model_fields[step].annotation for each in forms if step in each.model_fields]
    return named or [each for annotation in annotations for each in _forms(annotation)] or forms


def _forms(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models among the alternatives of a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _forms(inner)


def _message(findings: Sequence[Any], loc: Sequence[int | str], value: Any, fields: Collection[str]) -> str:
    """One sentence about the value at `loc`, of which the members of a union may each find something."""
    first = findings[0]
    kind = first["type"]
    if kind == "missing":
        return f"{_subject(loc)} is required"
    if kind == "extra_forbidden":
        return unknown("field", str(loc[-1]), fields)
    if kind == "value_error":
        return str(first["ctx"]["error"])
    if first["loc"][-1:] == (_KEY,):
        subject, value = f"a name in {_subject(loc[:-1])}", first["loc"][-2]
    else:
        subject = _subject(loc)
    allowed = dict.fromkeys(
        _ALLOWED[each["type"]](each.get("ctx", {})) for each in findings if each["type"] in _ALLOWED
    )
    return (
        f"{subject} is {_shown(value)}; it must {' or '.join(allowed).replace(' or be ', ' or ') or 'be as documented'}"
    )


def _subject(loc: Sequence[int | str]) -> str:
    """The last name of a place and the positions after it, in quotes."""
    text = ""
    for step in reversed(loc):
        if isinstance(step, str):
            return repr(step[:_MAX_SHOWN] + text)
        text = f"[{step}]{text}"
    return repr(text) if text else "the body"


def _shown(value: Any) -> str:
    """A number or short string, else what kind of value it is."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value) if len(value) <= _MAX_SHOWN else f"a string of {len(value):,} characters"
    if isinstance(value, int | float):
        return str(value)[:_MAX_SHOWN]  # with all digits: "is 1; it must be at most 1" would be of no help
    return f"a list of {counted(len(value), 'item')}" if isinstance(value, list) else "an object"
