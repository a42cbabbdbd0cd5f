"""Calls to a disk or a store, which may be slow, unavailable, full or set up wrongly; and how often
one failed.
"""

import errno
import logging
import os
import re
from collections.abc import Callable
from typing import TypeVar

from obstore.exceptions import AlreadyExistsError, BaseError
from prometheus_client import Counter

from app.errors import EXHAUSTED, UNWRITABLE, Unavailable, Unusable
from app.storage.circuit_breaker import CircuitBreaker

T = TypeVar("T")

# What waiting does not fix, by the store's code: reported at once, and ends a start.
_REFUSALS = frozenset({
    "NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed", "InvalidAccessKeyId",
    "SignatureDoesNotMatch", "AccessDenied", "AllAccessDisabled",
})  # fmt: skip
_CODE = re.compile(r"<Code>(\w+)</Code>")
_FAILING = UNWRITABLE | EXHAUSTED | {errno.EACCES, errno.EPERM, errno.ESTALE}  # of a disk
_ERRNO = re.compile(r"\(os error (\d+)\)")

ERRORS = Counter(
    "payoff_storage_errors", "Calls that a store did not answer", ("store",), registry=None
)

_log = logging.getLogger(__name__)


def on_disk(name: str, errors: Counter, work: Callable[[], T]) -> T:
    """What `work` returns; Unavailable for a failure of the disk, after which nobody waits: it
    answers at once.

    FileNotFoundError and AlreadyExistsError are answers.
    """
    try:
        return work()
    except (FileNotFoundError, AlreadyExistsError):
        raise
    except (OSError, BaseError) as error:
        found = _ERRNO.search(str(error))
        number = error.errno if isinstance(error, OSError) else int(found[1]) if found else None
        if number in {errno.ENOTDIR, errno.EISDIR}:
            raise FileNotFoundError(number, os.strerror(number)) from error
        if number not in _FAILING:
            raise
        errors.inc()
        why = os.strerror(number)
        _log.warning("%s: %s", name, str(error).partition("\n")[0])
        cause = OSError(number, why)
        raise Unavailable(f"the disk of {name} cannot be used at the moment ({why})") from cause


class StoreBreaker(CircuitBreaker):
    """Calls a store; raises Unavailable, or Unusable, for every failure of the store, which then
    rests for a second.
    """

    def __init__(self, name: str, errors: Counter) -> None:
        super().__init__()
        self._name, self._errors = name, errors

    def call(self, work: Callable[[], T]) -> T:
        """What `work` returns. FileNotFoundError and AlreadyExistsError are answers, too."""
        self.admit(Unavailable)
        try:
            result = work()
        except Exception as error:
            failure = _failure_of(self._name, error)
            if failure is None:
                self.reset()
                raise
            self._errors.inc()
            if not self.reason:
                _log.warning(
                    "%s: %s", failure.detail, _code_of(error) or str(error).partition("\n")[0]
                )
            self.trip(failure.detail)
            raise failure from error
        self.reset()
        return result


def _failure_of(name: str, error: Exception) -> Unavailable | None:
    """The failure of the store that `error` stands for; None if it is an answer, or a bug in this
    service.
    """
    code = _code_of(error)
    if code in _REFUSALS:
        return Unusable(f"the store of {name} cannot be used ({code})")
    if isinstance(error, FileNotFoundError | AlreadyExistsError) or not isinstance(
        error, OSError | BaseError
    ):
        return None
    return Unavailable(f"the store of {name} does not answer at the moment")


def _code_of(error: Exception) -> str:
    """The store's own code, such as NoSuchBucket; unlike the whole answer it contains no secrets."""
    found = _CODE.search(str(error))
    return found[1] if found else ""
