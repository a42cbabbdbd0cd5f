"""The application that an ASGI server runs: `uvicorn app.main:app`."""

from app.api.app import create_app
from app.monitoring.logs import configure
from app.service import wire
from app.settings import Settings

settings = Settings()
configure(settings.log_level)
app = create_app(wire(settings))
