"""The tutorial on rewards: its Python answers as printed."""

import contextlib
import functools
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import serving, settings_for

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial" / "rewards.md").read_text()
CODE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the policy is not shown")  # which step 5 speaks of
def test_the_python_answers_as_printed(tmp_path):
    blocks = CODE.findall(PAGE)
    assert [bool(printed) for _, printed in blocks] == [False, True, True, True, True]
    names: dict[str, Any] = {}
    with (
        serving(settings_for(tmp_path / "service")) as client,
        contextlib.chdir(tmp_path),
    ):
        for code, printed in blocks:
            text = io.StringIO()
            names["print"] = functools.partial(print, file=text)
            url = str(client.base_url).rstrip("/")
            exec(code.replace("http://127.0.0.1:8000", url), names)
            assert _shown(text.getvalue()) == _shown(printed)
        names["client"].close()


def _shown(text: str) -> list[Any]:
    """The text, sums of rewards to 5 %: with other decimals single decisions may differ."""
    parts = re.split(r"(?<=learned |st mean )(\d+)|(\d+)(?= earned)", text)
    return [
        pytest.approx(int(part), rel=0.05) if part and part.isdigit() else part
        for part in parts
    ]
