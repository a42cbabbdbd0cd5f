"""The documentation shows what the code says."""

from __future__ import annotations

from pathlib import Path

from app.jobs.job import diagram

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_diagram_of_job_states_is_the_table_of_transitions():
    assert f"```mermaid\n{diagram()}```" in ARCHITECTURE


def test_every_part_of_the_house_is_named():
    parts = {path.stem for path in (ROOT / "app").iterdir() if not path.name.startswith("__")}

    assert {part for part in parts if f"`{part}`" not in ARCHITECTURE} <= {"demo"}
