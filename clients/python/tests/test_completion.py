"""Completion, by a real bash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from payoff_client import Payoff, commands

ROOT = Path(__file__).parents[3]
PROGRAMS = {"payoff-client": "payoff_client.commands", "payoff": "app.cli"}
WORDS = {  # the last one is completed
    "": {"predict", "completion"},
    "comp": {"compare", "completion"},
    "predict --be": {"--benefits"},
    "predict wa": {"ward"},
    "predict ward ca": {"cases.csv"},
    "retrieve p.csv --setting multil": {"multilabel"},
    "completion fi": {"fish"},
}
TRY = """
{program}() {{ {python} -m {module} "$@"; }}
source <({program} completion bash)
registered=($(complete -p {program}))
while IFS= read -r line; do
  COMP_WORDS=({program} $line)
  [[ -n $line && $line != *" " ]] || COMP_WORDS+=("")
  COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )) COMPREPLY=()
  for place in "${{!registered[@]}}"; do [[ ${{registered[place]}} == -F ]] && complete=${{registered[place + 1]}}; done
  $complete {program} "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
  echo "${{COMPREPLY[@]}}"
done
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_bash_completes_commands_options_files_and_models(service, ward, tmp_path, monkeypatch, program):
    (tmp_path / "cases.csv").touch()
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'clients/python'}")
    done = subprocess.run(
        ["bash", "-c", TRY.format(program=program, python=sys.executable, module=PROGRAMS[program])],
        input="".join(f"{words}\n" for words in WORDS),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    found = dict(zip(WORDS, (set(line.split()) for line in done.stdout.splitlines()), strict=True))

    assert done.stderr == ""
    assert found.pop("") >= WORDS[""] | ({"serve", "worker"} if program == "payoff" else set())
    assert found == {words: expected for words, expected in WORDS.items() if words}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell, capsys, monkeypatch):
    assert commands.main(["completion", shell]) == 0
    written = capsys.readouterr().out
    assert "payoff-client models --names" in written
    assert "--benefits" in written or "-l benefits" in written
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert commands.main(["completion", shell]) == 2
    assert "pip install" in capsys.readouterr().err


def test_names_that_bash_would_run_are_not_completed(monkeypatch, capsys):
    monkeypatch.setattr(Payoff, "models", lambda _: [{"name": "triage"}, {"name": "$(touch x)"}, {"name": "`x`"}])
    assert commands.main(["models", "--names"]) == 0
    assert capsys.readouterr().out == "triage\n"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_reader_that_has_enough_ends_it_quietly(program, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'clients/python'}")
    line = f"set -o pipefail; {sys.executable} -m {PROGRAMS[program]} completion bash | exec 0<&-"
    assert subprocess.run(["bash", "-c", line], capture_output=True, check=True).stderr == b""
