"""All settings, read from environment variables with the prefix PAYOFF_."""

from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The service's settings; the text under each one is its documentation."""

    model_config = SettingsConfigDict(
        env_prefix="PAYOFF_",
        env_ignore_empty=True,  # as if the variable were missing
        # A key that was read from a file ends in a line end, which does not belong to it.
        str_strip_whitespace=True,
        frozen=True,
        use_attribute_docstrings=True,
        extra="forbid",
    )

    home: Path = Path(".payoff")
    """Folder for all state except models: the database and the data sets."""

    models: str = "models"
    """Where models are stored: a folder or an object store's URL."""

    datasets: str = ""
    """Where data sets are stored: a folder or an object store's URL; by default `datasets` in the \
home folder."""

    decisions: str = ""
    """Where days of recorded decisions are stored: a folder or an object store's URL; by default \
`decisions` in the home folder."""

    database: str = ""
    """SQLAlchemy URL of the job table and registry index; by default SQLite in the home folder."""

    database_connections: int = Field(default=10, ge=2)
    """Maximum number of connections of this process to PostgreSQL; each running job adds one."""

    database_seconds: float = Field(default=5, ge=1)
    """Timeout of a statement in PostgreSQL in seconds, including the wait for locks."""

    admin_key: SecretStr | None = Field(default=None, min_length=1)
    """API key with all permissions; without it and without other keys, no key is required."""

    console: bool = True
    """Serve the console at `/`; otherwise `/` leads to the documentation page."""

    hosts: str = ""
    """Host names, separated by commas, that a service without keys accepts in addition to \
loopback."""

    trusted_proxies: str = ""
    """Addresses or networks of proxies, separated by commas, whose X-Forwarded-For is trusted; by \
default none."""

    rate_limit: str = Field(
        default="", pattern=r"^([1-9][0-9]{0,8}/(second|minute|hour|day))?$"
    )
    """Rate limit of each key, or of each address without keys, such as `100/second`; the admin \
key has no limit."""

    jobs_per_key: int | None = Field(default=None, ge=1)
    """Maximum number of queued and running jobs of one key; by default unlimited."""

    allow_version_skew: bool = False
    """Load models that were trained with another version of scikit-learn, at your own risk."""

    allow_pickles: bool = False
    """Accept joblib files in imports: loading one runs the code that it names."""

    workers: int = Field(default=1, ge=0, le=64)
    """Number of jobs that this process runs at once; 0 leaves them to `payoff worker` processes."""

    job_attempts: int = Field(default=3, ge=1, le=100)
    """Maximum number of attempts at a job whose process or machine dies."""

    dask: str = Field(default="", pattern=r"^((tcp|tls)://\S+:\d+)?$")
    """Scheduler of a Dask cluster, tcp://host:8786, over which the trees, folds and comparisons \
of a job are spread."""

    job_seconds: float = Field(default=3600, gt=0)
    """Maximum wall time of a job in seconds; a job that exceeds it is stopped and fails."""

    job_memory_mb: int = Field(default=4096, ge=64)
    """Maximum resident memory of a job; a job that exceeds it is stopped and fails."""

    job_threads: int = Field(default=1, ge=1)
    """Number of threads that the numerical libraries may use in one job."""

    lease_seconds: float = Field(default=10, gt=1)
    """Seconds without a heartbeat after which a worker's jobs are given to other workers."""

    max_body_mb: float = Field(default=64, gt=0)
    """Maximum size of a request body; larger ones get 413."""

    max_upload_mb: float = Field(default=512, gt=0)
    """Maximum size of a data set upload; larger ones get 413."""

    upload_memory_mb: int = Field(default=400, ge=64)
    """Maximum memory of the process that reads an uploaded data set, else 422; two are read at \
once."""

    max_rows: int = Field(default=5_000_000, ge=1)
    """Maximum number of rows of a data set."""

    max_columns: int = Field(default=10_000, ge=1)
    """Maximum number of columns of a data set."""

    max_categories: int = Field(default=1_000, ge=2)
    """Maximum number of distinct values of a categorical feature; more suggest an identifier or \
free text."""

    request_memory_mb: int | None = Field(default=None, ge=64)
    """Memory for requests in progress: bodies (counted twice), work and answers. 503 while it is \
used up, 413 for a request that can never fit. Default: a third of the memory of the container or \
machine, at most 1024."""

    cache_mb: int = Field(default=512, ge=1)
    """Memory for loaded models, measured by the size of their files."""

    local_copies_mb: int = Field(default=2048, ge=0)
    """Disk in the home folder for copies of the models in an object store that were loaded; 0 \
keeps none."""

    keep_jobs_days: float | None = Field(default=None, gt=0)
    """Days after which ended jobs are deleted; by default they are kept."""

    keep_inline_days: float = Field(default=30, ge=1)
    """Days after which workers delete unneeded data sets sent with a training request, hourly; \
`inf` keeps them."""

    keep_decisions_days: float | None = Field(default=None, gt=0)
    """Days after which workers delete recorded decisions and their outcomes, hourly; by default \
they are kept."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum log level."""

    access_log: bool = True
    """Write a log line for each request."""

    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Port where `payoff worker` exposes metrics (off by default)."""

    shutdown_seconds: float = Field(default=20, ge=0)
    """Seconds that running requests have to finish when the service stops."""

    @field_validator("trusted_proxies")
    @classmethod
    def _of_networks(cls, text: str) -> str:
        for part in listed(text):
            ip_network(part)  # its error names the fault
        return text

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.home.absolute() / 'payoff.db'}"

    @property
    def datasets_url(self) -> str:
        return self.datasets or str(self.home.absolute() / "datasets")

    @property
    def decisions_url(self) -> str:
        return self.decisions or str(self.home.absolute() / "decisions")

    @property
    def shares_decisions(self) -> bool:
        """Whether all machines see the store of decisions, as far as the settings show: a home
        folder may belong to one machine alone.
        """
        return bool(self.decisions) or "://" not in self.datasets


def listed(text: str) -> list[str]:
    """The parts of a setting that are separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def setting_errors(error: ValidationError) -> list[str]:
    """One line for each invalid setting, without its value."""
    return [
        f"PAYOFF_{'_'.join(map(str, details['loc'])).upper()}: {details['msg']}"
        for details in error.errors()
    ]
