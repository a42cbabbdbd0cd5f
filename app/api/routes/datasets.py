"""Data sets over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.api.bodies import checked, parsed_text
from app.api.codecs.media_types import BINARY, CSV, FORM, GZIP, PARQUET
from app.api.codecs.uploads import received, run_while_connected
from app.api.dependencies import CallerDep, PageSize, PageToken, StoresDep
from app.api.errors import problems
from app.api.gate import TRAIN, UPLOAD, needs
from app.api.routing import StrictRoute
from app.requests import datasets as usecase
from app.requests.datasets import EXAMPLE_ID
from app.tables.dataset import ColumnReport
from app.tables.upload_request import (
    Decimal,
    Delimiter,
    Encoding,
    Header,
    UploadRequest,
)
from payoff.errors import Invalid

router = APIRouter(prefix="/datasets", tags=["train"], route_class=StrictRoute)

EXAMPLE_CSV = """\
age,pressure,pain,condition
63,145,typical,ill
41,120,none,healthy
57,150,typical,ill
38,118,none,healthy
66,160,typical,ill
45,128,mild,healthy
59,138,mild,ill
35,122,none,healthy
61,152,typical,ill
48,124,mild,healthy
70,158,none,ill
29,115,none,healthy
54,146,typical,healthy
44,130,none,healthy
67,149,mild,ill
50,,mild,healthy
62,140,typical,ill
33,119,none,healthy
58,155,mild,ill
47,126,none,healthy
64,143,none,ill
52,132,mild,healthy
55,148,typical,ill
39,121,mild,healthy
"""


class FeatureDocument(BaseModel):
    """A column to learn from."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    type: Literal["numeric", "categorical"]


class LeftOut(BaseModel):
    """How many recorded decisions have no row, by the reason."""

    without_instance: int
    without_truth: int
    of_acquire: int = Field(description="of which only some features were known")
    of_other_action: int = Field(
        description="of rewards: another action was carried out, or is unknown to the model"
    )


class Lineage(BaseModel):
    """The recorded decisions that the rows are made of."""

    model: str
    versions: list[int] = Field(description="those that decided")
    since: float | None = Field(
        description="seconds since 1970; null: from the first on"
    )
    until: float | None = Field(description="before this; null: to the last")
    rows: int
    left_out: LeftOut
    warnings: list[str] = Field(
        default_factory=list,
        description="why the rows are no fair sample of all decisions",
    )


class DatasetDocument(BaseModel):
    """A stored table."""

    model_config = ConfigDict(from_attributes=True)

    id: str = Field(
        description="derived from content and labels: the same upload has the same id"
    )
    name: str | None = Field(
        description="what the upload called it; `dataset` of other requests may be a name, too"
    )
    rows: int
    features: list[FeatureDocument]
    labels: list[str] = Field(description="the columns to predict")
    classes: list[int | str] | None = Field(
        description="what the label can be, in order; the labels' names where there are several;"
        " null where it is a number to regress on"
    )
    digest: str = Field(description="SHA-256 of the stored table")
    created_at: datetime
    columns: list[ColumnReport] = Field(
        description="the features, then the labels; later than in the answer to the upload the"
        " first 200"
    )
    warnings: list[str] = Field(description="the first advice about columns")
    ignored: dict[str, str] = Field(
        description="columns of the file that are no features, with the reasons"
    )
    kept: Annotated[list[str], BeforeValidator(list)] = Field(
        description="those of them that a hold-out by time or group can name"
    )
    from_: Lineage | None = Field(
        validation_alias="lineage",
        serialization_alias="from",
        description="where the rows of a table of recorded decisions come from",
    )


class DatasetPage(BaseModel):
    """A page of data sets, newest first."""

    datasets: list[DatasetDocument]
    next_page_token: str | None


_TYPES = (
    'JSON: {"column": "number", "category", "value" (for cells of matrices), "weight" (of the row)'
    ' or "ignore"}, or how text stands for numbers: "number:1,234.5", "number:1.234,5", "boolean",'
    ' "date" (ISO 8601) or such as "date:%d/%m/%Y". Of numbers other values count as missing'
)
_FILE = {
    "type": "string",
    "format": "binary",
    "description": "CSV (gzipped or not) or Parquet",
}
_FORM_SCHEMA = UploadRequest.model_json_schema()
_FORM_SCHEMA["properties"] |= {
    "file": _FILE,
    "types": {"type": "string", "description": _TYPES},
}
_FORM_SCHEMA["required"].append("file")
del _FORM_SCHEMA["properties"]["owner"]
_FILE_SCHEMA = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            CSV: {"schema": {"type": "string"}, "example": EXAMPLE_CSV},
            FORM: {"schema": _FORM_SCHEMA},
            GZIP: _FILE_SCHEMA,
            PARQUET: _FILE_SCHEMA,
        },
    }
}


_BARE = (CSV, GZIP, "application/x-gzip", PARQUET, BINARY)
_DIALECT = "how the CSV file is written"
DatasetId = Annotated[str, Path(openapi_examples={"example": {"value": EXAMPLE_ID}})]


class UploadQuery(BaseModel):
    """The fields of an upload beside a bare file."""

    label: list[str] = Query(
        default_factory=list,
        description="the column to predict; repeat it for several",
        openapi_examples={"example": {"value": ["condition"]}},
    )
    drop_classes: list[str] = Query(
        default_factory=list,
        description="leave rows of this class out; repeat it for several",
    )
    name: str | None = Query(
        None,
        description="what you call it",
        openapi_examples={"example": {"value": "triage"}},
    )
    label_type: Literal["auto", "number"] | None = Query(
        None,
        description="`number`: integers are to be regressed on, and are no classes",
    )
    types: str | None = Query(None, description=_TYPES)
    delimiter: Delimiter | None = Query(None, description=_DIALECT)
    decimal: Decimal | None = Query(None, description=_DIALECT)
    encoding: Encoding | None = Query(None, description=_DIALECT)
    header: Header | None = Query(None, description=_DIALECT)
    drop_unlabelled: bool | None = Query(
        None, description="leave rows without a label out"
    )


@router.post(
    "", status_code=201, responses=problems(413, 415, 422, 503), openapi_extra=_BODY
)
@needs(UPLOAD)
async def upload_dataset(
    request: Request,
    response: Response,
    stores: StoresDep,
    caller: CallerDep,
    query: Annotated[UploadQuery, Query()],
) -> DatasetDocument:
    """Upload a table: CSV (gzipped or not), or Parquet.

    Send a form with `file`, `label` (repeated for several labels) and what else is needed, or the
    bare file as body with the others in the query. A label of words or integers is a class; one of
    other numbers is a number to regress on, and with `label_type` number so are integers. A column
    whose values are all numbers is numeric, as are amounts (`1.259,10 €`, `12 %`) and moments,
    which become days since 1970; instances take the same text. Others are categorical; empty
    values, `NA`, `N/A`, `NaN`, `nan`, `null`, `None` and `?` are missing. `ignored` are
    identifiers, text, and what can be read in two ways, each with the reason; `types` decides.
    `columns` say how each was read and what to change; so does a refusal. The same content gives
    the same data set.
    """
    async with received(request, ("label", "drop_classes"), bare=_BARE) as upload:
        fields = query.model_dump(exclude_none=True) | upload.fields
        if "types" in fields:
            fields["types"] = parsed_text("types", fields["types"])
            if not isinstance(fields["types"], dict):
                raise Invalid.at("/types", f"send {_TYPES}")
        question = checked(UploadRequest, {**fields, "owner": caller.owner})
        dataset = await run_while_connected(
            request, stores.datasets.upload, upload.content, question
        )
    response.headers["Location"] = f"/datasets/{dataset.id}"
    return DatasetDocument.model_validate(dataset)


@router.get("", responses=problems(422))
@needs(TRAIN)
def list_datasets(
    stores: StoresDep,
    caller: CallerDep,
    page_size: PageSize = 50,
    page_token: PageToken = None,
) -> DatasetPage:
    """List data sets, newest first."""
    datasets, token = stores.datasets.page(page_size, page_token, caller.sees_data_of)
    return DatasetPage.model_validate({"datasets": datasets, "next_page_token": token})


@router.get("/{dataset_id}", responses=problems(404))
@needs(TRAIN)
def get_dataset(
    dataset_id: DatasetId, stores: StoresDep, caller: CallerDep
) -> DatasetDocument:
    """Describe a data set, by its id or by its name: the last that you uploaded under it."""
    return DatasetDocument.model_validate(usecase.find(stores, dataset_id, caller))


@router.delete(
    "/{dataset_id}",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
@needs(TRAIN)
def delete_dataset(dataset_id: DatasetId, stores: StoresDep, caller: CallerDep) -> None:
    """Delete a data set that no queued or running job uses; models made from it stay."""
    usecase.delete(stores, dataset_id, by=caller)
