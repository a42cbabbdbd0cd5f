"""A client that hey-api/openapi-ts generates from the OpenAPI document, compiled strictly and run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

_COMPILE = "tsc --outDir dist --strict --skipLibCheck --target es2022 --lib es2022,dom,dom.iterable"
_MODULES = "--module commonjs --moduleResolution node10"


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_the_generated_client_works(service, ward, tmp_path):
    missing = [program for program in ("node", "openapi-ts", "tsc") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not on the path: npm install --global @hey-api/openapi-ts typescript@5")
    (tmp_path / "openapi.json").write_text(service.get("/openapi.json").text)
    shutil.copy(Path(__file__).with_name("use.ts"), tmp_path)
    run(tmp_path, "openapi-ts", "-i", "openapi.json", "-o", "out")
    run(tmp_path, *_COMPILE.split(), *_MODULES.split(), "use.ts")
    found = json.loads(run(tmp_path, "node", "dist/use.js", str(service.base_url).rstrip("/")))
    rows = [[58, 80, "mild"], [36.5, 70, "strong"]]
    asked = {"model": ward, "instances": rows, "benefits": [[0, -1], [-10, 5]], "actions": ["wait", "treat"]}

    assert found["decisions"] == service.post("/predict", json=asked).json()["decisions"]
    assert (found["status"], found["title"]) == (404, "Not found")
    assert "ward" in found["models"]
    assert found["shapes"] == [[1], [1, 2]]
