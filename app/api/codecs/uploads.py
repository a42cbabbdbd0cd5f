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
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from app.api.bodies import unsupported
from app.api.codecs.media_types import FORM
from app.api.limiters import limiters
from payoff.errors import MAX_NAME, Invalid

_Result = TypeVar("_Result")
_CHECK_SECONDS = 0.5  # between two checks that the client is still connected
_MAX_BYTES_IN_MEMORY = 1 << 20  # of an upload; a larger one goes to a temporary file
_MAX_FIELDS = 1000


@dataclass(frozen=True)
class Upload:
    """A file and what the form says about it: a text for each field, or a list."""

    content: BinaryIO
    fields: dict[str, Any] = field(default_factory=dict)


@asynccontextmanager
async def received(
    request: Request,
    repeated: Collection[str],
    *,
    bare: Collection[str] = (),
    field_bytes: int = 4 * MAX_NAME,
) -> AsyncIterator[Upload]:
    """The upload of a request, removed afterwards; the gate bounds the body. Raises Invalid.

    It is a form with a part `file`, or the file alone in one of the media types `bare`. Fields of
    the form are text of at most so many bytes, the last one of a name counts, but for those that
    may be `repeated`. A file of more than a megabyte is kept on disk.
    """
    media_type = (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
    )
    if media_type != FORM and media_type not in bare:
        raise unsupported(media_type, (FORM, *bare))
    if media_type == FORM:
        try:
            form = await request.form(
                max_files=1, max_fields=_MAX_FIELDS, max_part_size=field_bytes
            )
        except HTTPException as error:
            raise Invalid.at("", f"the form cannot be read: {error.detail}") from error
        try:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise Invalid.at(
                    "/file", "'file' is required, as a file: a part with a file name"
                )
            texts = {
                name: form.getlist(name) if name in repeated else form[name]
                for name in form
                if name != "file"
            }
            yield Upload(file.file, texts)
        finally:
            await form.close()
    else:
        # The file is closed below.
        spooled = SpooledTemporaryFile(max_size=_MAX_BYTES_IN_MEMORY)  # noqa: SIM115
        body = UploadFile(cast(BinaryIO, spooled))
        try:
            async for chunk in request.stream():
                await body.write(chunk)
            yield Upload(body.file)
        finally:
            await body.close()


async def run_while_connected(
    request: Request, function: Callable[..., _Result], *args: Any
) -> _Result:
    """Run `function(*args, is_cancelled)` in one of the few threads for uploads.

    `is_cancelled()` is true once the client has disconnected.
    """
    cancelled = threading.Event()
    work = asyncio.ensure_future(
        limiters(request).upload.run(
            request, partial(function, *args, is_cancelled=cancelled.is_set)
        )
    )
    try:
        while not (await asyncio.wait({work}, timeout=_CHECK_SECONDS))[0]:
            if await request.is_disconnected():
                cancelled.set()
        return work.result()
    finally:
        # A cancelled request waits, too: the file is in use until the work has ended.
        cancelled.set()
        await asyncio.wait({work})
