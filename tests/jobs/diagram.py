"""The picture of the documentation, made from the table that the code uses."""

from __future__ import annotations

from app.jobs.job import ENDED, TRANSITIONS, Status


def diagram() -> str:
    """The table of transitions as a mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {Status.QUEUED}"]
    lines += [f"    {start} --> {end}: {event}" for (start, event), end in TRANSITIONS.items()]
    lines += [f"    {status} --> [*]" for status in Status if status in ENDED]
    return "\n".join(lines) + "\n"
