"""A database whose clock stands still until a test moves it."""

from sqlalchemy import Double, literal

from app.database import Database


class ClockedDatabase(Database):
    time = 1000.0

    @property
    def now(self):
        return literal(self.time, Double)
