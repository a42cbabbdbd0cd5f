"""Callers with their scopes, and the keys by which they are known, in memory.

The copy in memory is never older than a second while the database answers.
"""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from time import time
from typing import TYPE_CHECKING

from app.access.rates import Rate, Windows, rounded_up
from app.access.sites import check_site
from app.database.pages import regex_of
from app.errors import Forbidden, KeyMissing, NotFound, NotReady, TooMany
from app.storage import Storage

if TYPE_CHECKING:  # it imports this module
    from app.access.keys import Keys, Revision

KEY_FORM = re.compile(rb"payoff_[0-9a-f]{8}\.[A-Za-z0-9_-]{43}")
# Wrong keys from one address: further ones get 429, and correct ones are accepted as before.
GUESSES = Rate(20, 60)

_LOST = (
    "API keys were made for this service, and their table is empty: restore the database, make a"
    " key with `payoff keys create`, or set PAYOFF_ADMIN_KEY"
)
# The secret of an unknown id is compared with this digest, which no secret has.
_NO_DIGEST = secrets.token_bytes(32)

_INVALID = (
    "invalid API key; send a valid one in the X-API-Key header, or as a bearer token"
)

NOTE = "keys.txt"
_NOTED = b"""API keys were made for the service that keeps its models here.
While this file exists, the service is never open to callers without a key.
"""

_log = logging.getLogger(__name__)


class Scope(StrEnum):
    """What a key allows; `admin` allows everything, and no other scope includes another."""

    PREDICT = "predict"
    TRAIN = "train"
    REVIEW = "review"
    METRICS = "metrics"
    ADMIN = "admin"


@dataclass(frozen=True)
class Caller:
    """The holder of a key, or any client if no keys are configured.

    `client` is the key's id, None where it is not one of the table's. `models` are patterns with
    `*` and `?`, of which a model's name has to match one; none at all leaves all models open.
    `jobs` bounds those queued and running at once.
    """

    name: str
    client: str | None = None
    scopes: frozenset[Scope] = frozenset(Scope)
    models: tuple[str, ...] = ()
    rate: Rate | None = None
    jobs: int | None = None

    def need(self, scopes: frozenset[Scope]) -> None:
        """Raise Forbidden unless the key has one of these scopes; no scopes need none."""
        if scopes and self.scopes.isdisjoint(scopes) and Scope.ADMIN not in self.scopes:
            alternatives = " or ".join(
                repr(scope.value) for scope in Scope if scope in scopes
            )
            raise Forbidden(
                f"this needs a key with the scope {alternatives};"
                f" that of {self.name!r} has {_listed(self.scopes)}"
            )

    def allows(self, reference: str) -> bool:
        """Whether the key is for the model of a reference (`name`, `name:3`, `name@alias`)."""
        if not self.models:
            return True
        name = _END_OF_NAME.split(reference, maxsplit=1)[0]
        return self._pattern.fullmatch(name) is not None

    def need_model(self, reference: str) -> None:
        """Raise Forbidden where the key is for other models; the words are the same whether this
        model exists or not.
        """
        if not self.allows(reference):
            raise Forbidden(
                f"the key of {self.name!r} is for models named {' or '.join(self.models)}"
            )

    @property
    def owner(self) -> str:
        """The owner of data sets that this caller makes: the key's name, which outlives the key.

        Empty for callers whose key is not in the table.
        """
        return "" if self.client is None else self.name

    def sees_data_of(self, owner: str) -> bool:
        """Whether the caller may see, use and delete the data sets of `owner`.

        Keys for some models may do so with their own data sets alone.
        """
        return not self.models or Scope.ADMIN in self.scopes or owner == self.owner

    def sees(self, model: str | None, client: str | None) -> bool:
        """Whether the caller may see a job for `model` that was ordered with the key `client`.

        A job for no model, a comparison, is hidden from keys that are for some models, unless they
        ordered it.
        """
        if model is None:
            return not self.models or client == self.client
        return self.allows(model)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return regex_of(self.models)


ANYBODY = Caller("anonymous")
# Until the gate knows the caller, and on routes that are open: it may do nothing.
NOBODY = Caller("nobody", scopes=frozenset(), models=("",))
_END_OF_NAME = re.compile("[:@]")


def _listed(scopes: Iterable[Scope]) -> str:
    return ", ".join(repr(scope.value) for scope in Scope if scope in scopes) or "none"


class KeysMade:
    """A note in `storage`, beside the models, that API keys were made.

    The database may be lost and come back empty: a SQLite file that is not mounted is made anew.
    Without the note a service whose keys were only there would then be open to any client.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def known(self) -> bool:
        """Whether keys were ever made; Unavailable where the storage does not answer."""
        try:
            self._storage.read(NOTE)
        except NotFound:
            return False
        return True

    def note(self) -> None:
        """Write the note; Unavailable where that is not possible now."""
        self._storage.write(NOTE, _NOTED)


class WrongKey(KeyMissing):
    """A key that may be a guess"""


@dataclass(frozen=True)
class _Entry:
    digest: bytes
    caller: Caller
    expires_at: float


_UNKNOWN = _Entry(_NO_DIGEST, ANYBODY, 0.0)


class Keyring:
    """The holders of keys, by key.

    `start` reads the table of keys again and again until its database is closed. `admin_key` may do
    everything and is not in the table. `rate` and `jobs` are limits for keys that have none of
    their own; where no keys are configured, `rate` holds for each address, and requests are for
    loopback or one of `hosts` (`sites`). Once keys were `made` every request needs one, also where
    their table is lost. Before the table was read, the admin key alone is accepted.
    """

    def __init__(
        self,
        keys: "Keys",
        made: KeysMade,
        admin_key: str | None = None,
        *,
        rate: Rate | None = None,
        jobs: int | None = None,
        hosts: Iterable[str] = (),
    ) -> None:
        self._keys = keys
        self._made = made
        self._admin_digest = _digest(admin_key.encode()) if admin_key else None
        self._admin = Caller("admin")
        self.anybody = Caller(ANYBODY.name, rate=rate)
        self._rate = rate
        self._jobs = jobs
        self._hosts = frozenset(host.lower() for host in hosts)
        self._entries: Mapping[bytes, _Entry] = {}
        self._revision: Revision | None = None
        self.obstacle = "the keys are not read yet"
        """Why only the admin key is accepted; empty where others are."""
        self.required = self._admin_digest is not None
        self._noted = False
        self._failures = Windows()

    def caller_of(self, method: str, headers: Mapping[bytes, bytes]) -> Caller:
        """The caller by the headers of a request; the errors of `caller` and `check_site`."""
        key = headers.get(b"x-api-key")
        if key is None:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            key = token.strip() if scheme.lower() == b"bearer" else None
        caller = self.caller(key)
        if caller is self.anybody:
            check_site(
                method,
                headers.get(b"host", b""),
                headers.get(b"origin"),
                headers.get(b"sec-fetch-site"),
                self._hosts,
            )
        return caller

    def caller(self, presented: bytes | None) -> Caller:
        """The holder of the key that was sent; `anybody` where none are configured.

        KeyMissing where it is invalid, WrongKey where it may be a guess (see `count_wrong_key`),
        NotReady before the table was read. Takes the same time for a wrong secret and an unknown
        id; no input or output.
        """
        if self.obstacle and (presented is None or self._admin_digest is None):
            raise NotReady(self.obstacle)
        if not self.required:
            return self.anybody
        if presented is None:
            raise KeyMissing("send a key in the X-API-Key header, or as a bearer token")
        key_id, _, secret = presented.partition(b".")
        entry = self._entries.get(key_id, _UNKNOWN)
        if hmac.compare_digest(_digest(secret), entry.digest):
            if entry.expires_at <= time():
                raise KeyMissing("this key has expired: ask for a new one")
            return entry.caller
        if self._is_admin(presented):
            return self._admin
        # The admin key is chosen by people and may be guessed. Other keys cannot be guessed, and a
        # key that was revoked, or is too new to be known here, is no guess.
        if not KEY_FORM.fullmatch(presented):
            raise WrongKey(_INVALID)
        raise NotReady(self.obstacle) if self.obstacle else KeyMissing(_INVALID)

    def _is_admin(self, presented: bytes) -> bool:
        return self._admin_digest is not None and hmac.compare_digest(
            _digest(presented), self._admin_digest
        )

    def holds(self, caller: Caller) -> bool:
        """Whether a request that was allowed for `caller` would be allowed now."""
        if caller.client is None:
            return caller is not self.anybody or not self.required
        entry = self._entries.get(caller.client.encode())
        return entry is not None and entry.expires_at > time()

    def count_wrong_key(self, address: str) -> None:
        """Count a wrong key from `address`; TooMany after `GUESSES`.

        Correct keys are never refused because of it.
        """
        wait = self._failures.take(address, GUESSES).wait
        if wait:
            seconds = rounded_up(wait)
            raise TooMany("too many wrong keys came from this address", seconds=seconds)

    def start(self) -> None:
        self._keys.follow(self._update)

    def refresh(self) -> None:
        """Read the table of keys, if a key was made or revoked; else one small query."""
        revision = self._keys.revision()  # first: the keys read after it are not older
        if revision == self._revision:
            return
        if not self.required:
            self.required = revision.made > 0 or self._made.known()
        self._entries = {
            key.id.encode(): _Entry(
                key.digest,
                key.caller(rate=self._rate, jobs=self._jobs),
                key.expires_at or 1e300,
            )
            for key in self._keys.list(
                revoked=False
            )  # each revoked key stays in the table
        }
        is_lost = revision.made == 0 and self.required and self._admin_digest is None
        if is_lost:
            _log.error("%s", _LOST)
        self.obstacle = _LOST if is_lost else ""
        self._revision = revision

    def _update(self, revision: "Revision") -> None:
        if revision != self._revision:
            self.refresh()
        if (
            revision.made and not self._noted
        ):  # where a store is unavailable, it is tried again
            if not self._made.known():
                self._made.note()
            self._noted = True


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
