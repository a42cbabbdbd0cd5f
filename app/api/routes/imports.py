"""Importing models over HTTP."""

from functools import partial
from io import SEEK_END
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.api.bodies import checked, parsed_text
from app.api.codecs.media_types import FORM
from app.api.codecs.uploads import received
from app.api.dependencies import only_own_models
from app.api.exchange import charge_of
from app.api.gate import INSTALL, needs
from app.api.jobs import Order, ordering, starting
from app.api.limiters import limiters
from app.api.memory import BYTE
from app.api.routes.models import ModelName
from app.api.routes.train import JobDocument
from app.api.routing import StrictRoute
from app.training import import_model as usecase
from app.training.import_model import ImportRequest

router = APIRouter(
    prefix="/models",
    tags=["models"],
    route_class=StrictRoute,
    dependencies=[Depends(only_own_models)],
)

_MAX_FIELD_BYTES = 1 << 20
_JSON_FIELDS = ("benefits", "cost_matrix", "actions", "feature_costs")


_FILE = {"type": "string", "format": "binary", "description": "the model"}
_SCHEMA = ImportRequest.model_json_schema(ref_template="#/components/schemas/{model}")
_SCHEMA |= {
    "properties": {"file": _FILE, **_SCHEMA["properties"]},
    "required": ["file", *_SCHEMA["required"]],
}
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
    """The job, of kind `import`, is found under `/train`. It loads the file, evaluates the model on
    all rows of the data set, and publishes it with the same card and figures as a trained model.
    """
    async with received(request, ("classes",), field_bytes=_MAX_FIELD_BYTES) as upload:
        charge_of(request)(upload.content.seek(0, SEEK_END), BYTE)
        documents = {
            name: parsed_text(name, upload.fields[name])
            for name in _JSON_FIELDS
            if name in upload.fields
        }
        question = checked(ImportRequest, upload.fields | documents)
        run = partial(limiters(request).upload.run, request)
        job = await job_of(usecase.submit, name, question, upload.content, run=run)
    response.headers["Location"] = f"/train/{job.id}"
    return JobDocument.of(job)
