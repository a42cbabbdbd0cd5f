"""Reading an uploaded file from a request, as a form or as the bare body."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, TypeVar, cast

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from app.api.codecs.media_types import FORM
from app.api.routing import limiters
from app.errors import MAX_ERRORS, Flaw, Invalid, Unsupported, pointer, reject, unknown
from app.text import MAX_NAME

_Result = TypeVar("_Result")
_LOOK_SECONDS = 0.5
_IN_MEMORY = 1 << 20  # what is larger goes to a temporary file
_MAX_FIELDS = 1000


@dataclass(frozen=True)
class Upload:
    """A file and what the form says about it: a text for each field, or a list."""

    content: BinaryIO
    fields: dict[str, Any] = field(default_factory=dict)


@asynccontextmanager
async def received(
    request: Request,
    names: Collection[str],
    repeated: str,
    *,
    bare: Collection[str] = (),
    field_bytes: int = 4 * MAX_NAME,
) -> AsyncIterator[Upload]:
    """The upload that `request` carries, removed afterwards; the gate bounds the body. Raises Invalid.

    It is a form that may have fields of these `names`, of which one may be `repeated`, or the file alone in one of the
    media types `bare`. Fields are text of at most so many bytes; a file of more than a megabyte is kept on disk.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != FORM and media_type not in bare:
        raise Unsupported(f"Content-Type is {media_type[:80] or 'absent'!r}; send {' or '.join((FORM, *bare))}")
    if media_type == FORM:
        try:
            form = await request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=field_bytes)
        except HTTPException as error:
            raise Invalid.at("", f"the form cannot be read: {error.detail}") from error
        try:
            yield _upload_of(form, names, repeated)
        finally:
            await form.close()
    else:
        file = UploadFile(cast(BinaryIO, SpooledTemporaryFile(max_size=_IN_MEMORY)))  # noqa: SIM115  (closed below)
        try:
            async for chunk in request.stream():
                await file.write(chunk)
            yield Upload(file.file)
        finally:
            await file.close()


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


def _upload_of(form: FormData, names: Collection[str], repeated: str) -> Upload:
    """The file and the texts of a form; Invalid at any part that it may not have, or not twice."""
    file: UploadFile | None = None
    fields: dict[str, Any] = {}
    flaws: list[Flaw] = []
    for key, value in form.multi_items():
        if len(flaws) == MAX_ERRORS:  # a comparison with the known names takes time
            break
        if isinstance(value, UploadFile):
            file = value if key == "file" else file
            if key != "file":
                flaws.append(Flaw(pointer(key), f"{key!r} is a file; it must be text"))
        elif key == "file":
            flaws.append(Flaw(pointer(key), "'file' is text; it must be a file part (with a file name)"))
        elif key == repeated:
            fields.setdefault(key, []).append(value)
        elif key not in names:
            flaws.append(Flaw(pointer(key), unknown("form field", key, ["file", *names])))
        elif key in fields:
            flaws.append(Flaw(pointer(key), f"the form has {key!r} twice; send it once"))
        else:
            fields[key] = value
    reject(flaws)
    if file is None:
        raise Invalid.at("/file", "'file' is required")
    return Upload(file.file, fields)
