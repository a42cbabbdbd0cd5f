"""The parts that the application runs on: the one attribute of `app.state`."""

from dataclasses import dataclass, field
from threading import Event

from app.access.caller import Keyring
from app.answering.shadow import ShadowDecider
from app.api.entrance import Entrance
from app.api.exchange import Records
from app.api.gate import Gate
from app.api.limiters import Limiters
from app.api.memory import BodyLimits, Memory
from app.jobs.worker import Worker
from app.monitoring.logs import RequestLines
from app.monitoring.metrics import Metrics
from app.stores import Stores


@dataclass
class Service:
    """Stores, a worker (or none), keys and limits; and what the application makes of them itself.

    `stopping` is set at the first signal to end.
    """

    stores: Stores
    worker: Worker | None
    keyring: Keyring
    limits: BodyLimits
    access_log: bool
    memory: Memory = field(default_factory=lambda: Memory(512 * 2**20))
    console: bool = True
    limiters: Limiters = field(default_factory=Limiters, init=False)
    stopping: Event = field(default_factory=Event, init=False)
    metrics: Metrics = field(init=False)
    records: Records = field(init=False)
    shadow: ShadowDecider = field(init=False)
    gate: Gate = field(init=False)
    entrance: Entrance = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.stores, self.worker)
        lines = RequestLines() if self.access_log else None
        self.records = Records(self.metrics.requests, lines)
        self.shadow = ShadowDecider(self.stores.registry, self.stores.shadows)
        self.gate = Gate(self.keyring, self.limits)
        self.entrance = Entrance(
            self.stores,
            self.keyring,
            self.gate,
            self.limits,
            self.metrics.requests,
            self.records,
        )
