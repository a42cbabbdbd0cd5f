"""Notebooks of the documentation as pages: a hook of MkDocs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_STYLE = re.compile(r"<style.*?</style>\n?", re.DOTALL)


def on_files(files: Files, *, config: Any) -> Files:
    """Add a page for each notebook, beside the notebook itself."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = markdown(Path(str(file.abs_src_path)))
        files.append(
            File.generated(
                config, file.src_uri.removesuffix("ipynb") + "md", content=page
            )
        )
    return files


def on_page_markdown(text: str, **_: Any) -> str:
    """Link to the page of a notebook; elsewhere, in the repository, the link leads to the notebook."""
    return re.sub(r"(notebooks/\w+)\.ipynb\)", r"\1.md)", text)


def markdown(path: Path) -> str:
    """The page of the notebook at `path`: its text, code and outputs."""
    cells = json.loads(path.read_text())["cells"]
    parts = [part for cell in cells for part in _parts(cell)]
    title, *rest = parts
    return (
        "\n\n".join(
            [title, f'<a href="{path.name}" download>Download the notebook</a>', *rest]
        )
        + "\n"
    )


def _parts(cell: Mapping[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        yield _shown(output.get("data", {"text/plain": output.get("text", "")}))


def _shown(data: Mapping[str, Any]) -> str:
    """A chart, a table or text, whichever is there first."""
    if svg := "".join(data.get("image/svg+xml", "")):
        words = re.search(r"<title>(.*?)</title>", svg)
        image = base64.b64encode(svg.encode()).decode()
        return f'<img alt="{words[1] if words else "Chart"}" src="data:image/svg+xml;base64,{image}">'
    if table := "".join(data.get("text/html", "")):
        plain = _STYLE.sub("", table).replace(
            ' border="1" class="dataframe"', ""
        )  # the theme draws plain tables
        return re.sub(r"\n\s*", "\n", plain).strip()
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"
