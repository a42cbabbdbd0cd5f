"""Calls to a disk or a store, which may be slow, unavailable, full or set up wrongly; and the count
of their failures.
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

# The store's codes of errors that waiting does not fix: they are reported at once, and end a start.
_REFUSALS = frozenset({
    "NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed",
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "AllAccessDisabled",
})  # fmt: skip
_CODE = re.compile(r"<Code>(\w+)</Code>")
_FAILING = (
    UNWRITABLE | EXHAUSTED | {errno.EACCES, errno.EPERM, errno.ESTALE}
)  # of a disk
_ERRNO = re.compile(r"\(os error (\d+)\)")

ERRORS = Counter(
    "payoff_storage_errors",
    "Calls that a store did not answer",
    ("store",),
    registry=None,
)

_log = logging.getLogger(__name__)


def on_disk(name: str, errors: Counter, work: Callable[[], T]) -> T:
    """The result of `work`; Unavailable for a failure of the disk. FileNotFoundError and
    AlreadyExistsError are answers.
    """
    try:
        return work()
    except (FileNotFoundError, AlreadyExistsError):
        raise
    except (OSError, BaseError) as error:
        number = error.errno if isinstance(error, OSError) else _errno_in(str(error))
        if number in {errno.ENOTDIR, errno.EISDIR}:
            raise FileNotFoundError(number, os.strerror(number)) from error
        if number not in _FAILING:
            raise
        errors.inc()
        reason = os.strerror(number)
        _log.warning("%s: %s", name, str(error).partition("\n")[0])
        cause = OSError(number, reason)
        raise Unavailable(
            f"the disk of {name} cannot be used at the moment ({reason})"
        ) from cause


class StoreBreaker(CircuitBreaker):
    """Calls a store; raises Unavailable, or Unusable, for every failure of the store, which then
    rests for a second.
    """

    def __init__(self, name: str, errors: Counter) -> None:
        super().__init__()
        self._name = name
        self._errors = errors

    def call(self, work: Callable[[], T]) -> T:
        """The result of `work`. FileNotFoundError and AlreadyExistsError are answers, too."""
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
                    "%s: %s",
                    failure.detail,
                    _code_of(error) or str(error).partition("\n")[0],
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


def _errno_in(message: str) -> int | None:
    """The number of the operating system's error in a message of the library, if it has one."""
    match = _ERRNO.search(message)
    return int(match[1]) if match else None


def _code_of(error: Exception) -> str:
    """The store's own code, such as NoSuchBucket; the rest of its answer may contain secrets."""
    match = _CODE.search(str(error))
    return match[1] if match else ""
