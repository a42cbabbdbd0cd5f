"""Reading an uploaded file from a request, as a form or as the bare body."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, TypeVar, cast

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from app.api.codecs.media_types import BINARY, CSV, FORM, GZIP, PARQUET
from app.api.routing import limiters
from app.data.upload_request import UploadRequest
from app.errors import Flaw, Invalid, Unsupported, pointer, reject, unknown
from app.text import MAX_NAME

_Result = TypeVar("_Result")
FIELDS = tuple(name for name in UploadRequest.model_fields if name != "owner")
BARE = (CSV, GZIP, "application/x-gzip", PARQUET, BINARY)
_LOOK_SECONDS = 0.5
_IN_MEMORY = 1 << 20  # what is larger goes to a temporary file
_UTF8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})  # ASCII is read as UTF-8, of which it is a part
_EXTENDED = re.compile(r";\s*[\w-]+\*", re.ASCII)  # a parameter that names its own charset (RFC 2231)
_MAX_FIELDS = 1000
_MAX_FIELD_BYTES = 4 * MAX_NAME


@dataclass(frozen=True)
class Upload:
    """A file and what the form says about it."""

    content: BinaryIO
    fields: dict[str, list[str]] = field(default_factory=dict)


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[Upload]:
    """The upload that `request` carries, removed afterwards; the gate bounds the body. Raises Invalid."""
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == FORM:
        form = await read_form(request)
        try:
            yield upload_of(form, FIELDS)
        finally:
            await form.close()
    elif media_type in BARE:
        check_charset(content_type)
        file = UploadFile(cast(BinaryIO, SpooledTemporaryFile(max_size=_IN_MEMORY)))  # noqa: SIM115  (closed below)
        try:
            async for chunk in request.stream():
                await file.write(chunk)
            yield Upload(file.file)
        finally:
            await file.close()
    else:
        raise Unsupported(f"Content-Type is {media_type[:80] or 'absent'!r}; send {FORM}, {CSV}, {GZIP} or {PARQUET}")


async def run_while_connected(request: Request, function: Callable[..., _Result], *args: Any) -> _Result:
    """Run `function(*args, is_cancelled)` in one of the few threads for uploads.

    `is_cancelled()` is true once the client has disconnected.
    """
    cancelled = threading.Event()
    work = asyncio.ensure_future(
        limiters(request).upload.run(request, partial(function, *args, is_cancelled=cancelled.is_set))
    )
    try:
        while not (await asyncio.wait({work}, timeout=_LOOK_SECONDS))[0]:
            if await request.is_disconnected():
                cancelled.set()
        return work.result()
    finally:
        cancelled.set()  # also where this request was cancelled; the file is in use until the work has ended
        await asyncio.wait({work})


def upload_of(form: FormData, names: Collection[str]) -> Upload:
    """The file and the texts of a form, which may have these `names`; Invalid at any other part."""
    file: UploadFile | None = None
    texts: dict[str, list[str]] = {name: [] for name in names}
    others = []
    for key, value in form.multi_items():
        if key == "file" and isinstance(value, UploadFile):
            file = value
        elif key in texts and isinstance(value, str):
            texts[key].append(value)
        else:
            others.append(key)
    reject(Flaw(pointer(key), _refusal(key, texts)) for key in others)
    if file is None:
        raise Invalid.at("/file", "'file' is required")
    return Upload(file.file, texts)


def _refusal(key: str, texts: Collection[str]) -> str:
    """Why a form may not contain this part."""
    if key == "file":
        return "'file' is text; it must be a file part (with a file name)"
    return f"{key!r} is a file; it must be text" if key in texts else unknown("form field", key, ["file", *texts])


def check_charset(content_type: str) -> None:
    """Unsupported where a media type has another charset than UTF-8."""
    charset = parse_options_header(content_type)[1].get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in _UTF8 or _EXTENDED.search(content_type):
        raise Unsupported(f"charset {charset[:40]!r} is not supported; send UTF-8")


async def read_form(request: Request, *, field_bytes: int = _MAX_FIELD_BYTES) -> FormData:
    """The parts of a form; a file of more than a megabyte is kept on disk. Invalid where the form cannot be read."""
    check_charset(request.headers["content-type"])
    try:
        return await request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=field_bytes)
    except HTTPException as error:
        raise Invalid.at("", f"the form cannot be read: {error.detail}") from error
