"""Clients of two replicas, as a load balancer would have them: who loses one turns to the other."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from tests.servers.service import Replica

_PAUSE_SECONDS = 0.1  # before the other replica is tried a second time


@dataclass
class Account:
    """How requests went: every attempt is in one of the three."""

    answered: int = 0
    lost: int = 0
    """Connections to a replica that was killed meanwhile, or had not come back yet."""
    failed: list[str] = field(default_factory=list)
    """Everything else that was not a success."""

    @property
    def share_failed(self) -> float:
        return len(self.failed) / max(self.answered + len(self.failed), 1)


class Caller:
    """One client with a connection to each replica, closed at the end of the block; for one thread."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        account: Account | None = None,
        seconds: float = 30.0,
    ) -> None:
        self.account = account or Account()
        self._replicas = list(replicas)
        self._clients = [
            httpx.Client(base_url=replica.url, timeout=seconds) for replica in replicas
        ]

    def ask(self, method: str, path: str, **sent: Any) -> httpx.Response | None:
        """Try until a replica answers; None where both are away, or the answer is not a success."""
        for replica, client in sorted(
            zip(self._replicas, self._clients, strict=True),
            key=lambda pair: not pair[0].up,
        ):
            kills, up = replica.kills, replica.up
            try:
                response = client.request(method, path, **sent)
            except httpx.TransportError as error:
                if up and replica.kills == kills:
                    self.account.failed.append(
                        f"{method} {path}: {type(error).__name__} {error}"
                    )
                else:
                    self.account.lost += 1
                continue
            finally:
                self._turn()
            if response.is_success:
                self.account.answered += 1
                return response
            self.account.failed.append(
                f"{method} {path}: {response.status_code} {response.text[:300]}"
            )
        return None

    def insist(
        self, method: str, path: str, seconds: float = 120.0, **sent: Any
    ) -> httpx.Response:
        """Ask again and again until it succeeds."""
        until = time.monotonic() + seconds
        while (response := self.ask(method, path, **sent)) is None:
            if time.monotonic() > until:
                raise AssertionError(
                    f"no success for {method} {path}: {self.account.failed[-3:]}"
                )
            time.sleep(_PAUSE_SECONDS)
        return response

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_what: object) -> None:
        for client in self._clients:
            client.close()

    def _turn(self) -> None:
        """The other one first, next time."""
        self._replicas.append(self._replicas.pop(0))
        self._clients.append(self._clients.pop(0))


class Crowd:
    """Threads that do one thing each, over and over, until the block ends."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def do(self, what: Callable[[], None], *, pause: float = 0.0) -> None:
        """Have a thread do it until the end."""

        def go_on() -> None:
            try:
                while not self._stop.is_set():
                    what()
                    self._stop.wait(pause)
            except BaseException as error:  # noqa: BLE001 - told at the end of the block
                self.errors.append(error)

        self._threads.append(threading.Thread(target=go_on, daemon=True))
        self._threads[-1].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        if kind is None and self.errors:
            raise self.errors[0]
