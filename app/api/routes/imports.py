"""Importing models over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from io import SEEK_END
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from app.api.codecs.json import parsed
from app.api.codecs.media_types import FORM
from app.api.codecs.uploads import read_form, upload_of
from app.api.gate import INSTALL, charge_of, needs
from app.api.jobs import Order, ordering, starting
from app.api.memory import BYTE
from app.api.routes.models import ModelName
from app.api.routes.train import JobDocument
from app.api.routing import StrictRoute, checked, limiters, only_own_models
from app.errors import Invalid, Unsupported, pointer
from app.usecases import import_model as usecase
from app.usecases.import_model import ImportRequest

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute, dependencies=[Depends(only_own_models)])

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
        upload = upload_of(form, ImportRequest.model_fields)
        charge_of(request)(upload.content.seek(0, SEEK_END), BYTE)  # it is kept
        asked = checked(ImportRequest, _values(upload.fields, request))
        run = partial(limiters(request).upload.run, request)
        job = await job_of(usecase.submit, name, asked, upload.content, run=run)
    finally:
        await form.close()
    response.headers["Location"] = f"/train/{job.id}"
    return JobDocument.of(job)


def _values(sent: Mapping[str, list[str]], request: Request) -> dict[str, Any]:
    """The fields of a form, each once but for `classes`; matrix, actions and prices are JSON."""
    fields: dict[str, Any] = {name: texts for name, texts in sent.items() if texts}
    for name, texts in fields.items():
        if name != "classes":
            if len(texts) > 1:
                raise Invalid.at(pointer(name), f"the form has {name!r} twice; send it once")
            fields[name] = _document(name, texts[0], request) if name in _JSON_FIELDS else texts[0]
    return fields


def _document(key: str, text: str, request: Request) -> Any:
    try:
        return parsed(text.encode(), charge_of(request))
    except Invalid as error:
        raise error.under(pointer(key)) from error
