"""What routes ask for."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from app.usecases.ports import Ports


def ports(request: Request) -> Ports:
    return cast(Ports, request.app.state.ports)


PortsDep = Annotated[Ports, Depends(ports)]
