"""Each kind of place that a storage can be in."""

import uuid

import pytest


@pytest.fixture(params=["folder", "memory", "s3"])
def storage_url(request, tmp_path):
    """A fresh empty place: a folder, memory, or a bucket on a real server."""
    if request.param == "folder":
        return str(tmp_path / "root")
    if request.param == "memory":
        return f"memory://{uuid.uuid4().hex}"
    return f"{request.getfixturevalue('bucket')}/root"
