"""Who changed what, over HTTP."""

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from app.api.dependencies import PageSize, PageToken, StoresDep
from app.api.errors import problems
from app.api.gate import ADMIN, needs
from app.api.routing import StrictRoute

router = APIRouter(prefix="/audit", tags=["service"], route_class=StrictRoute)


class AuditEntry(BaseModel):
    """A change."""

    model_config = ConfigDict(from_attributes=True)

    at: datetime
    who: str = Field(
        description="name of the key; `admin`, `anonymous`, or `command line`",
        examples=["bank"],
    )
    client: str | None = Field(
        description="id of the key", examples=["payoff_1a2b3c4d"]
    )
    action: str = Field(examples=["alias.set"])
    subject: str = Field(description="what was changed", examples=["triage@champion"])
    details: dict[str, Any] = Field(examples=[{"version": 1}])


class AuditPage(BaseModel):
    """A page of changes, newest first."""

    entries: list[AuditEntry]
    next_page_token: str | None


@router.get("", summary="Who changed what, newest first", responses=problems(422))
@needs(ADMIN)
def list_audit(
    stores: StoresDep,
    page_size: PageSize = 50,
    page_token: PageToken = None,
) -> AuditPage:
    """Jobs ordered and cancelled, versions published and deleted, aliases moved, models and data
    sets deleted, keys made and revoked. Where keys are configured, it needs one with the scope
    `admin`.
    """
    entries, token = stores.audit.page(page_size, page_token)
    return AuditPage.model_validate({"entries": entries, "next_page_token": token})
