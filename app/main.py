"""The application that an ASGI server runs: `uvicorn app.main:app`."""

import structlog

from app.api.app import create_app
from app.logs import configure
from app.settings import Settings
from app.wiring import wire

settings = Settings()
configure(settings.log_level)
if settings.processes > 1:
    structlog.get_logger("payoff").warning("PAYOFF_PROCESSES has no effect here: several processes need `payoff serve`")
app = create_app(wire(settings))
