"""The page of the library is true: its programs print what follows them."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "library.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_programs_print_what_follows_them(capsys):
    names: dict[str, object] = {}
    programs = PROGRAM.findall(PAGE.read_text())

    assert len(programs) == 4
    for program, printed in programs:
        exec(program, names)
        assert capsys.readouterr().out == printed
