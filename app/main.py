"""The application that an ASGI server runs: `uvicorn app.main:app`."""

from app.service import start
from app.settings import Settings

app = start(Settings())
