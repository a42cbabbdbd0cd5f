"""Importing models over HTTP."""

from __future__ import annotations

from functools import partial
from io import SEEK_END
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Depends, Request, Response
from starlette.datastructures import FormData, UploadFile

from app.api.codecs.json import parsed
from app.api.codecs.media_types import FORM
from app.api.codecs.uploads import read_form
from app.api.gate import passage_of
from app.api.guard import INSTALL, needs
from app.api.jobs import Order, ordering, starting
from app.api.routes.models import ModelName
from app.api.routes.train import JobDocument
from app.api.routing import StrictRoute, checked, limiters, need_model
from app.errors import Invalid, Unsupported, pointer
from app.usecases import import_model as usecase
from app.usecases.import_model import ImportRequest

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute, dependencies=[Depends(need_model)])

_FIELD_BYTES = 1 << 20
_JSON_FIELDS = ("benefits", "cost_matrix", "actions", "feature_costs")


_FILE = {"type": "string", "format": "binary", "description": "the model"}
_SCHEMA = ImportRequest.model_json_schema(ref_template="#/components/schemas/{model}")
_SCHEMA |= {"properties": {"file": _FILE, **_SCHEMA["properties"]}, "required": ["file", *_SCHEMA["required"]]}
_BODY = {"requestBody": {"required": True, "content": {FORM: {"schema": _SCHEMA}}}}


@router.post(
    "/{name}/versions",
    summary="Start a job that imports a model as a new version",
    **starting(JobDocument, 403, 404, 409, 413, 415, 422),
    openapi_extra=_BODY,
)
@needs(INSTALL)
async def import_version(
    name: ModelName,
    request: Request,
    response: Response,
    job_of: Annotated[Order, ordering("import-triage")],
) -> JobDocument:
    """The job, of kind `import`, is found under `/train`. It loads the file, evaluates the model on all rows of the
    data set, and publishes it with the same card and figures as a trained model.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != FORM:
        raise Unsupported(f"Content-Type is {content_type[:80] or 'absent'!r}; send {FORM}")
    form = await read_form(request, field_bytes=_FIELD_BYTES)
    try:
        content, fields = _parts(form, request)
        passage_of(request).reserve(content.seek(0, SEEK_END))  # it is kept
        asked = checked(ImportRequest, fields)
        run = partial(limiters(request).upload.run, request)
        job = await job_of(usecase.submit, name, asked, content, run=run)
    finally:
        await form.close()
    response.headers["Location"] = f"/train/{job.id}"
    return JobDocument.of(job)


def _parts(form: FormData, request: Request) -> tuple[BinaryIO, dict[str, Any]]:
    """The file and the other fields of a form; Invalid where the file is absent, or a field is not as it should be."""
    file: BinaryIO | None = None
    fields: dict[str, Any] = {}
    for key, value in form.multi_items():
        if isinstance(value, UploadFile):
            if key != "file":
                raise Invalid.at(pointer(key), f"{key!r} is a file; 'file' is the only one")
            file = value.file
        elif key == "file":
            raise Invalid.at("/file", "'file' is text; it must be a file part (with a file name)")
        elif key == "classes":
            fields.setdefault(key, []).append(value)
        elif key in fields:
            raise Invalid.at(pointer(key), f"the form has {key!r} twice; send it once")
        else:
            fields[key] = _document(key, value, request) if key in _JSON_FIELDS else value
    if file is None:
        raise Invalid.at("/file", "'file' is required")
    return file, fields


def _document(key: str, text: str, request: Request) -> Any:
    try:
        return parsed(text.encode(), passage_of(request).reserve)
    except Invalid as error:
        raise error.under(pointer(key)) from error
