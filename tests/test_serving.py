"""The server of `payoff serve`."""

import asyncio
import time

from fastapi import FastAPI

from app import serving
from app.settings import Settings


def test_each_tick_is_a_sign_of_life_whatever_the_clock_says(monkeypatch):
    """An overloaded event loop has a tick per turn, and some of them count as silence if not all are signs."""
    beats = []
    server = serving._server(FastAPI(), Settings(), host="127.0.0.1", port=0, beat=lambda: beats.append(True))
    monkeypatch.setattr(time, "time", lambda: -3600.0 * len(beats))

    async def ticks():
        return [await server.on_tick(counter) for counter in range(20)]

    assert asyncio.run(ticks()) == [False] * 20
    assert len(beats) == 20
