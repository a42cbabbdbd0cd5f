"""What a store on the network does to those who ask it: it is slow, away, full or forbidding."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

from app.errors import PayoffError, Unavailable, Unusable
from app.storage.failures import TROUBLES

T = TypeVar("T")

_FIRST_PAUSE = 0.2  # seconds before the second try, doubled before each further one
_LONGEST_PAUSE = 5.0
_REST_SECONDS = 1.0  # a store that failed twice running is left alone for so long
_ENDPOINT = "AWS_ENDPOINT_URL is not a URL such as https://s3.example.org"
# Errors that waiting does not fix: they are reported at once and end a start.
_REFUSALS = {
    "NoSuchBucket": "there is no such bucket",
    "InvalidBucketName": "that cannot be the name of a bucket",
    "ParamValidationError": "that cannot be the name of a bucket",
    "EndpointResolutionError": _ENDPOINT,
    "ProfileNotFound": "there is no such profile: AWS_PROFILE",
    "InvalidRegionError": "that cannot be the name of a region: AWS_DEFAULT_REGION",
    "ConfigParseError": "AWS_CONFIG_FILE or AWS_SHARED_CREDENTIALS_FILE cannot be read",
    "PermanentRedirect": "the bucket is in another region: set AWS_DEFAULT_REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set AWS_DEFAULT_REGION",
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "NoCredentialsError": "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "PartialCredentialsError": "the credentials are incomplete: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "AccessDenied": "access is denied: list, read, write and delete have to be allowed",
    "AllAccessDisabled": "access is denied: list, read, write and delete have to be allowed",
    "403": "access is denied: list, read, write and delete have to be allowed",
}

_log = logging.getLogger(__name__)


class CircuitBreaker:
    """Calls a store, and says Unavailable, or Unusable, of all that is the store's fault.

    Every call is tried twice, and for as long as `patience` seconds. A store that fails all the same is left alone for
    a second, and is then asked by one caller at a time until it answers again: while it hangs, others hear so at once
    instead of waiting with all threads of the service.
    """

    def __init__(self, name: str, patience: float = 0.0) -> None:
        self._name = name
        self._patience = patience
        self._trouble: str | None = None  # what is told to those who are not let through
        self._rest_until = 0.0
        self._probing = threading.Lock()

    def call(self, work: Callable[[], T]) -> T:
        """What `work` returns; it may be done twice. FileNotFoundError and FileExistsError are answers, too."""
        if self._trouble is None:
            return self._try(work)
        if monotonic() < self._rest_until or not self._probing.acquire(blocking=False):
            raise Unavailable(self._trouble)
        try:
            return self._try(work)
        finally:
            self._probing.release()

    def _try(self, work: Callable[[], T]) -> T:
        until, pause, first = monotonic() + self._patience, _FIRST_PAUSE, True
        while True:
            try:
                result = work()
            except Exception as error:
                trouble = _trouble(self._name, error)
                if trouble is None:
                    self._trouble = None  # it answered
                    raise
                TROUBLES.note(self._name)
                if isinstance(trouble, Unusable) or not (first or monotonic() + pause < until):
                    self._rest(trouble, error)
                    raise trouble from error
            else:
                self._trouble = None
                return result
            sleep(pause)
            pause, first = min(2 * pause, _LONGEST_PAUSE), False

    def _rest(self, trouble: Unavailable, error: Exception) -> None:
        if self._trouble is None:
            _log.warning("%s", f"{trouble.detail}: {type(error).__name__} {code_of(error)}".rstrip())
        self._rest_until = monotonic() + _REST_SECONDS
        self._trouble = trouble.detail


def _trouble(name: str, error: Exception) -> Unavailable | None:
    """The failure of the store that `error` tells of; None where it is an answer, or a mistake of ours."""
    reason = _REFUSALS.get(code_of(error)) or _REFUSALS.get(type(error).__name__)
    if isinstance(error, ValueError) and str(error).startswith("Invalid endpoint"):  # botocore has no class for it
        reason = _ENDPOINT
    if reason is not None:
        return Unusable(f"the store of {name} cannot be used: {reason}")
    answer = isinstance(error, FileNotFoundError | FileExistsError | PayoffError)
    if answer and code_of(error) != "NoSuchUpload":  # an upload in parts that was broken off
        return None
    if isinstance(error, OSError) or type(error).__module__ != "builtins":  # of the libraries below, whichever it is
        return Unavailable(f"the store of {name} does not answer at the moment")
    return None


def code_of(error: BaseException) -> str:
    """The store's own word for it, such as NoSuchBucket; it has no secrets in it."""
    for told in (error, error.__cause__):
        response = getattr(told, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""
