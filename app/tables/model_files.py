"""Files of models that were sent to be imported, kept until their job has ended."""

import re
import time
from contextlib import suppress

from app.errors import Conflict
from app.storage import Storage

_MODEL = "model"
_SEAL = "uploaded_at"
_JOB = re.compile(r"job_[0-9a-f]{20}")
# after which a file whose job has ended, or does not exist, is removed
_KEPT_SECONDS = 3600.0


class ModelFiles:
    """Beside the data sets, in a folder named by the job. What is kept here is not trusted.

    `pickles`: whether files that run code when they are loaded are accepted. `version_skew`:
    whether models of another version of scikit-learn are.
    """

    def __init__(
        self,
        url: str,
        *,
        pickles: bool = False,
        version_skew: bool = False,
        retry_seconds: float = 0.0,
    ) -> None:
        self.pickles = pickles
        self.version_skew = version_skew
        self._storage = Storage(
            url, seal=_SEAL, name="PAYOFF_DATASETS", retry_seconds=retry_seconds
        )

    def keep(self, job: str, content: bytes) -> None:
        """Keep the file of a job; where that job has one already, it stays."""
        with suppress(Conflict):
            self._storage.publish(
                job, {_MODEL: content, _SEAL: str(time.time()).encode()}
            )

    def read(self, job: str) -> bytes:
        """The file of a job; NotFound where there is none."""
        return self._storage.read(job, _MODEL)

    def remove(self, job: str) -> None:
        """Remove the file of a job, if there is one."""
        self._storage.remove(job)

    def jobs(self) -> list[str]:
        """The jobs whose files are kept."""
        return [name for name in self._storage.folders() if _JOB.fullmatch(name)]

    def is_old(self, job: str) -> bool:
        """Whether it came more than an hour ago, when its job had been submitted; NotFound where
        there is none.
        """
        return float(self._storage.read(job, _SEAL)) < time.time() - _KEPT_SECONDS
