"""The application that an ASGI server runs: `uvicorn app.main:app`."""

from app.api.app import create_app
from app.logs import configure
from app.settings import Settings
from app.wiring import wire

settings = Settings()
configure(settings.log_level)
app = create_app(wire(settings))
