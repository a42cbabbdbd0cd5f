"""Reading `multipart/form-data` (RFC 7578) by Starlette, in UTF-8 only, with one file and bounded fields."""

from __future__ import annotations

import re

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from app.errors import Invalid, Unsupported
from app.text import MAX_NAME

_UTF8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})  # ASCII is read as UTF-8, of which it is a part
_EXTENDED = re.compile(r";\s*[\w-]+\*", re.ASCII)  # a parameter that names its own charset (RFC 2231)
_MAX_FIELDS = 1000
_MAX_FIELD_BYTES = 4 * MAX_NAME


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
