"""The order of a chain of forests as a staircase: what each step costs, how the error falls, and who stops there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.api.charts.axis import short
from app.api.charts.frame import heading
from app.api.charts.svg import document, fitted, line, tag, text

_WIDTH, _TOP, _ROW = 760.0, 64.0, 26.0
_NAME, _PRICE, _ERROR, _STOPS = 24.0, 290.0, 360.0, 600.0
_FULL = 150.0  # pixels of an error of one
_SHARE = 100.0  # pixels of all cases


def chain_chart(title: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """A line for each step: the feature, its price, the error once it is known, and the share that stops there."""
    heads = [(_NAME, "known"), (_PRICE, "paid so far"), (_ERROR + 40, "error"), (_STOPS, "cases that stop here")]
    shown = heads if steps[0]["stops"] is not None else heads[:-1]
    known = ["nothing", *(step["asks"] for step in steps[:-1])]
    body = heading(title, _WIDTH) + "".join(text(x, 46, words, cls="soft") for x, words in shown)
    body += "".join(_step(place, name, step) for place, (name, step) in enumerate(zip(known, steps, strict=True)))
    body += _stairs([step["error"] for step in steps])
    described = f"{len(steps) - 1} features in one order; all cost {short(steps[-1]['spent'])}. "
    described += "; ".join(_told(name, step) for name, step in zip(known, steps, strict=True)) + "."
    return document(_WIDTH, _TOP + _ROW * len(steps) + 12, body, title, described)


def _told(name: str, step: Mapping[str, Any]) -> str:
    parts = [name, f"paid {short(step['spent'])}"]
    parts += [f"error {step['error']:.3f}"] if step["error"] is not None else []
    return ", ".join(parts + ([f"{step['stops']:.1%} stop here"] if step["stops"] is not None else []))


def _step(place: int, name: str, step: Mapping[str, Any]) -> str:
    y = _TOP + _ROW * place + 14
    parts = [fitted(_NAME, y, _PRICE - _NAME - 12, name, 38), text(_PRICE, y, short(step["spent"]))]
    if step["error"] is not None:
        parts.append(text(_ERROR + 40 + _FULL + 8, y, f"{step['error']:.3f}", cls="soft"))
    if step["stops"] is not None:
        parts.append(tag("rect", x=_STOPS, y=y - 10, width=max(_SHARE * step["stops"], 0.5), height=12, cls="best"))
        parts.append(text(_STOPS + _SHARE * step["stops"] + 6, y, f"{step['stops']:.1%}", cls="soft"))
    return "".join(parts)


def _stairs(errors: Sequence[float | None]) -> str:
    """The error as a falling staircase, one tread for each line."""
    at = [None if error is None else _ERROR + 40 + _FULL * error for error in errors]
    parts = []
    for place, x in enumerate(at):
        if x is None:
            continue
        top = _TOP + _ROW * place
        parts.append(line(x, top, x, top + _ROW, "line"))
        before = at[place - 1] if place else None
        if before is not None:
            parts.append(line(before, top, x, top, "line"))
    return "".join(parts)
