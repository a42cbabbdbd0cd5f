"""Reading `multipart/form-data` (RFC 7578): UTF-8 only, and bounded in everything but the file's length."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from app.errors import Invalid, Unsupported
from app.text import MAX_NAME

_UTF8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})  # ASCII is read as UTF-8, of which it is a part
_PLAIN = frozenset({"", "7bit", "8bit", "binary"})  # transfer encodings that leave bytes as they are
_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")  # RFC 2046, 5.1.1
_EXTENDED = re.compile(r";\s*[\w-]+\*", re.ASCII)  # a parameter that names its own charset (RFC 2231)
_MAX_FIELDS = 1000
_MAX_FIELD_BYTES = 4 * MAX_NAME  # bytes
_TAIL = 16  # bytes of a form that hold its last mark


def check_charset(content_type: str) -> dict[bytes, bytes]:
    """The parameters of a media type; Unsupported where its charset is not UTF-8."""
    parameters = parse_options_header(content_type)[1]
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in _UTF8 or _EXTENDED.search(content_type):
        raise Unsupported(f"charset {charset[:40]!r} is not supported; send UTF-8")
    return parameters


async def read_form(
    content_type: str,
    chunks: AsyncGenerator[bytes, None],
    *,
    field_bytes: int = _MAX_FIELD_BYTES,
    look: Callable[[str, str], None] = lambda _name, _text: None,
) -> FormData:
    """The parts of a form, with at most one file; a file of more than a megabyte is kept on disk.

    `look(name, text)` sees each field as soon as it has arrived, and may raise.

    Invalid where the form cannot be read or text is not UTF-8, Unsupported for another charset or transfer encoding.
    """
    boundary = check_charset(content_type).get(b"boundary", b"")
    if not _BOUNDARY.fullmatch(boundary):
        raise Invalid.at("", "the form has no boundary of 1 to 70 characters in its Content-Type")
    try:
        return await _Parser(boundary, _complete(chunks), field_bytes, look).parse()
    except MultiPartException as error:
        raise Invalid.at("", f"the form cannot be read: {error.message}") from error


class _Parser(MultiPartParser):
    """Starlette's parser, which would decode with any codec that Python knows; the library below bounds the headers."""

    def __init__(
        self,
        boundary: bytes,
        chunks: AsyncGenerator[bytes, None],
        field_bytes: int,
        look: Callable[[str, str], None],
    ) -> None:
        self._look = look
        media_type = b'multipart/form-data; boundary="' + boundary + b'"'
        super().__init__(
            Headers(raw=[(b"content-type", media_type)]),
            chunks,
            max_files=1,
            max_fields=_MAX_FIELDS,
            max_part_size=field_bytes,
        )

    def on_headers_finished(self) -> None:
        for name, value in self._current_part.item_headers:
            if name == b"content-type":
                check_charset(value.decode("latin-1"))
            elif name == b"content-transfer-encoding" and value.decode("latin-1").strip().lower() not in _PLAIN:
                raise Unsupported("Content-Transfer-Encoding is not supported in a form; send the bytes as they are")
        super().on_headers_finished()

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            try:
                text = part.data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise Invalid.at("", f"the field {part.field_name[:40]!r} is not UTF-8") from error
            self._look(part.field_name, text)
        super().on_part_end()


async def _complete(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same chunks; Invalid at the end of a form that was cut off, which the parser takes for one without a file."""
    tail = b""
    async for chunk in chunks:
        tail = (tail + chunk[-_TAIL:])[-_TAIL:]
        yield chunk
    if not tail.rstrip().endswith(b"--"):
        raise Invalid.at("", "the form is cut off: it does not end with its boundary")
