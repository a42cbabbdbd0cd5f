"""Write `llms.txt` beside the pages, a list of them with what each is about: a hook of MkDocs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_sections: dict[str, list[str]] = {}


def on_pre_build(**_: Any) -> None:
    """Forget what an earlier build in the same process listed."""
    _sections.clear()


def on_page_markdown(text: str, *, page: Any, **_: Any) -> None:
    """Note a page under its section, with its first sentence."""
    section = page.ancestors[0].title if page.ancestors else "Start"
    line = f"- [{page.title}]({page.url}): {first_sentence(text)}"
    _sections.setdefault(section, []).append(line.removesuffix(": "))


def on_post_build(*, config: Any) -> None:
    """Write the list."""
    parts = [
        f"# {config['site_name']}",
        "> A REST service that turns predictions into decisions.",
    ]
    for section, lines in _sections.items():
        parts += [f"## {section}", "\n".join(lines)]
    Path(config["site_dir"], "llms.txt").write_text("\n\n".join(parts) + "\n")


def first_sentence(markdown: str) -> str:
    """That of the first paragraph of text, without its links; "" where there is none."""
    for paragraph in re.split(r"\n\s*\n", markdown):
        line = " ".join(paragraph.split())
        if not line.startswith(("#", "```", "|", "-", "<", "!")):
            line = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line)
            return re.split(r"(?<=[.?!]) ", line)[0]
    return ""
