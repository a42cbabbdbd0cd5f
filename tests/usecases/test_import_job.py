"""Importing, as far as no process is needed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from app.data.model_files import ModelFiles
from app.errors import Invalid, NotFound
from app.usecases.import_job import check_memory, clean_up_files
from tests.messages import says

MB = 2**20
RUNNING, ENDED, NEW, OLD = (f"job_{digit * 20}" for digit in "0123")


def test_a_model_may_take_as_much_memory_as_an_upload_and_its_libraries():
    check_memory(300 * MB, 64 * MB)

    with pytest.raises(Invalid) as caught:
        check_memory(400 * MB, 64 * MB)
    assert says("/file", "400 MB", "320 MB") in caught.value.flaws


def test_files_are_kept_as_long_as_their_jobs_may_need_them(tmp_path):
    """Also the file of a job that is about to be submitted; not one that never was."""
    files = ModelFiles(str(tmp_path), max_bytes=MB)
    assert all(files.keep(job, b"model") for job in (RUNNING, ENDED, NEW, OLD))
    assert not files.keep(RUNNING, b"other")
    (tmp_path / OLD / "upload.json").write_text(json.dumps({"at": 0}))

    def view(job: str) -> SimpleNamespace:
        if job in (NEW, OLD):
            raise NotFound(job)
        return SimpleNamespace(ended=job == ENDED)

    clean_up_files(SimpleNamespace(imports=files, queue=SimpleNamespace(view=view)))

    assert files.jobs() == [RUNNING, NEW]
    assert files.read(RUNNING) == b"model"
