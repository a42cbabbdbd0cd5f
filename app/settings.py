"""Everything that can be set, from environment variables that begin with PAYOFF_."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")


class Settings(BaseSettings):
    """The service's settings; the text under each one is its documentation."""

    model_config = SettingsConfigDict(env_prefix="PAYOFF_", frozen=True, use_attribute_docstrings=True, extra="forbid")

    home: Path = Path(".payoff")
    """The one folder that holds state besides the registry: the database and the data sets."""

    models: str = "models"
    """Where models are kept: a folder or any fsspec URL."""

    datasets: str = ""
    """Where data sets are kept: a folder or any fsspec URL; by default `datasets` in the home folder."""

    database: str = ""
    """SQLAlchemy URL of the job table and registry index; by default SQLite in the home folder."""

    database_connections: int = Field(default=10, ge=2)
    """Most connections of this process to PostgreSQL; each running job adds one."""

    database_seconds: float = Field(default=5, ge=1)
    """How long a statement in PostgreSQL may take, waiting for locks included."""

    admin_key: SecretStr | None = None
    """The API key that may do everything; without it (and without other keys) no key is asked for."""

    hosts: str = ""
    """Host names, separated by commas, that a service without keys answers for besides loopback."""

    trusted_proxies: str = ""
    """Addresses or networks of proxies, separated by commas, whose X-Forwarded-For is believed; by default none."""

    rate_limit: str = Field(default="", pattern=r"^([1-9][0-9]{0,8}/(second|minute|hour|day))?$")
    """Requests of each key, or of each address without keys, such as `100/second`; the admin key has no limit."""

    jobs_per_key: int | None = Field(default=None, ge=1)
    """Jobs of one key that may be queued or running at once; by default any number."""

    signing_key: SecretStr | None = None
    """Signs published models (HMAC-SHA256); when set, files that this service did not sign are refused."""

    allow_version_skew: bool = False
    """Load models that were made with another version of scikit-learn, at your own risk."""

    workers: int = Field(default=1, ge=0, le=64)
    """Jobs that this process runs at once; 0 leaves them to `payoff worker` processes."""

    job_attempts: int = Field(default=3, ge=1, le=100)
    """How often a job is tried whose process or machine died."""

    dask: str = Field(default="", pattern=r"^((tcp|tls)://\S+:\d+)?$")
    """Scheduler of a Dask cluster, tcp://host:8786, over which the trees, folds and comparisons of a job are spread."""

    job_seconds: float = Field(default=3600, gt=0)
    """Wall time after which a job is stopped and fails."""

    job_memory_mb: int = Field(default=4096, ge=64)
    """Resident memory beyond which a job is stopped and fails."""

    job_threads: int = Field(default=1, ge=1)
    """Threads that the numerical libraries may use inside one job."""

    lease_seconds: float = Field(default=10, gt=1)
    """How long a worker may be silent before its job is given to another."""

    max_body_mb: float = Field(default=64, gt=0)
    """Largest request body, 413 beyond it."""

    max_upload_mb: float = Field(default=512, gt=0)
    """Largest data set upload, 413 beyond it."""

    upload_memory_mb: int = Field(default=400, ge=64)
    """Memory of the process that reads an uploaded data set, 422 beyond it; two are read at once."""

    max_rows: int = Field(default=5_000_000, ge=1)
    """Most rows of a data set."""

    max_columns: int = Field(default=10_000, ge=1)
    """Most columns of a data set."""

    max_categories: int = Field(default=1_000, ge=2)
    """Most distinct values of a categorical feature; more look like an identifier or free text."""

    request_memory_mb: int | None = Field(default=None, ge=64)
    """Memory for requests in progress: bodies (counted twice), work and answers. 503 while it is used up, 413 for a \
request that can never fit. Default: a third of the memory of the container or machine, at most 2048."""

    cache_mb: int = Field(default=512, ge=1)
    """Memory for loaded models, measured by the size of their files."""

    local_copies_mb: int = Field(default=2048, ge=0)
    """Disk in the home folder for copies of models that are kept in an object store; 0 keeps none."""

    keep_jobs_days: float | None = Field(default=None, gt=0)
    """Days after which ended jobs are forgotten; by default they are kept."""

    keep_inline_days: float = Field(default=30, ge=1)
    """Days after which workers delete unneeded data sets sent with a training request, hourly; `inf` keeps them."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least grave log line that is written."""

    access_log: bool = True
    """Write a log line for each request."""

    telemetry: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """URL of an OpenTelemetry collector (OTLP over HTTP) that is sent traces; by default there are none."""

    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Port at which `payoff worker` tells its metrics; by default it does not."""

    shutdown_seconds: float = Field(default=20, ge=0)
    """How long running requests may take to end when the service stops."""

    @field_validator("admin_key", "signing_key")
    @classmethod
    def _none_where_empty(cls, key: SecretStr | None) -> SecretStr | None:
        """An empty variable sets no key, as in an env file that leaves it out; one of blanks is a mistake."""
        if key is None or not key.get_secret_value():
            return None
        if not key.get_secret_value().strip():
            raise ValueError("holds blanks alone: give it a key, or leave it empty for none")
        return key

    @field_validator("admin_key")
    @classmethod
    def _as_it_is_sent(cls, key: SecretStr | None) -> SecretStr | None:
        """No header carries blanks or line ends around its value, and a key that was read from a file ends in one."""
        return key if key is None else SecretStr(key.get_secret_value().strip())

    @field_validator("trusted_proxies")
    @classmethod
    def _of_networks(cls, text: str) -> str:
        for part in listed(text):
            ip_network(part)  # its words say what is wrong
        return text

    @field_validator("hosts")
    @classmethod
    def _of_names(cls, text: str) -> str:
        for name in listed(text):
            if not _HOST.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is not a host name: write names without port, separated by commas")
        return text

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.home.absolute() / 'payoff.db'}"

    @property
    def datasets_url(self) -> str:
        return self.datasets or str(self.home.absolute() / "datasets")


def listed(text: str) -> list[str]:
    """The parts of a setting that are separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def misspelt(variables: Iterable[str]) -> dict[str, str | None]:
    """Those of the environment's variables that look like settings and are none, each with the nearest setting."""
    prefix = "PAYOFF_"
    known = {f"{prefix}{name.upper()}" for name in Settings.model_fields}
    strange = sorted(name for name in variables if name.startswith(prefix) and name not in known)
    return {name: next(iter(get_close_matches(name, known, 1, 0.75)), None) for name in strange}


def refused(error: ValidationError) -> list[str]:
    """What cannot be about the settings, a line for each variable, without its value."""
    return [f"PAYOFF_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors()]
