"""Importing, as far as no process is needed."""

from __future__ import annotations

import json
from types import SimpleNamespace

from app.data.model_files import ModelFiles
from app.errors import NotFound
from app.usecases.import_model import clean_up_files

RUNNING, ENDED, NEW, OLD = (f"job_{digit * 20}" for digit in "0123")


def test_files_are_kept_as_long_as_their_jobs_may_need_them(tmp_path):
    """Also the file of a job that is about to be submitted; not one that never was."""
    files = ModelFiles(str(tmp_path))
    for job in (RUNNING, ENDED, NEW, OLD):
        files.keep(job, b"model")
    files.keep(RUNNING, b"other")
    (tmp_path / OLD / "upload.json").write_text(json.dumps({"at": 0}))

    def get(job: str) -> SimpleNamespace:
        if job in (NEW, OLD):
            raise NotFound(job)
        return SimpleNamespace(ended=job == ENDED)

    clean_up_files(SimpleNamespace(imports=files, queue=SimpleNamespace(get=get)))

    assert files.jobs() == [RUNNING, NEW]
    assert files.read(RUNNING) == b"model"
