"""What many tests share: a running service on a free port, and data."""

import gc
import os
import random
import sys
from pathlib import Path

gc.disable()  # until all is imported: a tenth of the time went into searching modules and tests for garbage

os.environ.pop(
    "PYTHONUNBUFFERED", None
)  # processes that tests start would write a line and its end apart, mixed

if os.environ.pop(
    "PYTHONDONTWRITEBYTECODE", None
):  # every process would compile all it imports: 8 s instead of 3 s
    os.environ.setdefault(
        "PYTHONPYCACHEPREFIX", str(Path.home() / ".cache" / "payoff-tests")
    )
    sys.pycache_prefix, sys.dont_write_bytecode = (
        os.environ["PYTHONPYCACHEPREFIX"],
        False,
    )

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(
        _variable, "1"
    )  # small problems: threads would only wait for each other, before numpy loads

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
import uvicorn
from hypothesis import settings as hypothesis
from xdist.scheduler.loadfile import LoadFileScheduling

from app.api.app import create_app
from app.api.hot_protocol import HotProtocol
from app.database.engine import Database
from app.database.migrations import migrate
from app.jobs.processes import preload
from app.opening import prepare_stores
from app.service import wire
from app.settings import Settings
from app.stores import Stores
from app.workers import PRELOADED
from tests.effort import SLOW, THOROUGH, repeated
from tests.servers.program import free_port

_STALLED = (
    ["tests.training.stalling", "app.database.postgres"] if THOROUGH else []
)  # each process would take seconds for them
# Whichever test is the first to start a process: those of jobs begin at once.
preload(["app.jobs.single", "app.jobs.attempt", *PRELOADED, *_STALLED])

# The same examples in every usual run, others in each thorough one; no clock decides about an example.
hypothesis.register_profile(
    "ours",
    max_examples=repeated(100),
    derandomize=not THOROUGH,
    database=None,
    deadline=None,
)
hypothesis.load_profile("ours")

_OF_THE_SYSTEM = (
    "tests/faults/test_outages.py",
    "tests/faults/test_recorded.py",
)  # those that ask for `system`
_SLOW = pytest.StashKey[int]()
_OTHER_SERVERS = {"postgresql", "s3"}  # parameters of fixtures
_SLOW_FIXTURES = {
    "balancer",
    "browser",
    "dask_cluster",
    "mortal",
    "object_store",
    "postgres_server",
    "system",
}
_APART = "tests/training/test_stalled_attempts.py"  # each of its cases takes long and shares nothing
_LONG = (
    "tests/faults/",
    "tests/console/",
    "tests/api/test_openapi",
    "tests/tables/test_isolated",
    "tests/deploy/test_balancer",
    "tests/jobs/test_worker",
    "tests/payoff/learners/test_cost_tree",
    "tests/payoff/learners/test_no_rows",
    "tests/storage/test_store_calls",
    "tests/requests/test_datasets",
    _APART,
)

pytest_plugins = ["tests.servers.fixtures"]  # postgres_url, bucket, dask_cluster


def pytest_configure(config):
    """Services that tests start would warn of a variable that is no setting; workers of xdist still need it."""
    if not config.getoption("numprocesses", default=None):
        os.environ.pop("PAYOFF_TESTS", None)


def pytest_xdist_make_scheduler(config, log):
    """Files go to workers whole and in our order; those that share a browser or a system go to the same one."""
    config.option.loadscopereorder = False
    return _Schedule(config, log)


def pytest_collection_modifyitems(config, items):
    """Those of this kind of run; what takes longest comes first, so that in the end no worker waits for another."""
    slow = set() if SLOW else {item for item in items if _is_slow(item)}
    config.stash[_SLOW] = len(slow)
    sampled_out = set()
    if not THOROUGH:
        sampled_out = {
            item
            for item in items
            if item.get_closest_marker("thorough") or _is_spared(item)
        }
    if left_out := slow | sampled_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(
        key=lambda item: (
            not item.nodeid.startswith(_OF_THE_SYSTEM),
            not item.nodeid.startswith(_LONG),
        )
    )


def pytest_sessionfinish(session):
    """A worker of xdist tells the process that prints how many slow tests it left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["slow"] = session.config.stash.get(_SLOW, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[_SLOW] = getattr(node, "workeroutput", {}).get("slow", 0)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(_SLOW, 0):
        terminalreporter.write_line(
            f"{count} slow tests were left out; PAYOFF_TESTS=slow make test runs them, as CI does"
        )


def _is_slow(item):
    """Whether a test is marked so, or needs a server of another program, a browser or processes that die."""
    if item.get_closest_marker("slow"):
        return True
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    servers = {value for value in parameters if isinstance(value, str)} & _OTHER_SERVERS
    return bool(servers) or not _SLOW_FIXTURES.isdisjoint(item.fixturenames)


def _is_spared(item):
    """Whether it is one of the two thirds of a sampled test's cases, drawn by their names."""
    return (
        item.get_closest_marker("sampled") is not None
        and random.Random(item.name).random() > 1 / 3
    )


def pytest_make_parametrize_id(config, val):
    """Of the fields of a request their names, in place of a number."""
    is_fields = (
        isinstance(val, dict)
        and 0 < len(val) < 5
        and all(str(name).isidentifier() for name in val)
    )
    return ",".join(val) if is_fields else None


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


class _Schedule(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file == _APART:
            return nodeid
        if file.startswith("tests/console/"):
            return "the console"
        return "the system" if file in _OF_THE_SYSTEM else file


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared(name: str) -> Path:
    """A real data set beside the project; the test is skipped where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not in ../shared/data")
    return path


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Also after a test whose service, in this process, wrote no warnings."""
    caplog.set_level("WARNING")
    return caplog


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, on each of the two that there are."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'payoff.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@contextmanager
def serving(settings: Settings, **options: object) -> Iterator[httpx.Client]:
    """The service in a thread of this process, and a client of it; `options` are uvicorn's."""
    port = free_port()
    wired = wire(settings)
    options = {
        "http": HotProtocol,
        "log_config": None,
        "lifespan": "on",
        "proxy_headers": False,
        "timeout_keep_alive": 65,
    } | options
    server = uvicorn.Server(uvicorn.Config(create_app(wired), port=port, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the service did not start")
        thread.join(0.01)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(15)


def settings_for(folder: Path, **changes: object) -> Settings:
    chosen = {
        "home": folder / "home",
        "models": str(folder / "models"),
        "access_log": False,
        **changes,
    }
    return Settings.model_validate(chosen)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One service for all tests that leave it usable."""
    folder = tmp_path_factory.mktemp("service")
    with serving(settings_for(folder)) as client:
        client.folder = folder  # for tests that read or write its database
        yield client


@contextmanager
def migrated(url: str, **options: float) -> Iterator[Database]:
    """A database with all tables."""
    database = Database(url, **options)
    migrate(database)
    try:
        yield database
    finally:
        database.close()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    """The stores of a service of the test's own."""
    stores = prepare_stores(settings_for(tmp_path))
    yield stores
    stores.database.close()


@contextmanager
def database_of(client: httpx.Client) -> Iterator[Database]:
    """The database of a service that has its folder."""
    database = Database(f"sqlite:///{client.folder / 'home' / 'payoff.db'}")
    try:
        yield database
    finally:
        database.close()


@pytest.fixture(scope="session")
def database(service: httpx.Client) -> Iterator[Database]:
    """That of the one service; tests of others have their own."""
    with database_of(service) as database:
        yield database


def trained(client: httpx.Client, order: dict) -> dict:
    """The job of a training order, ended."""
    response = client.post("/train", json=order, headers={"Prefer": "wait=60"})
    assert response.status_code == 200, response.text
    job = response.json()
    assert job["status"] == "succeeded", job
    return job


def two_class_rows(n: int = 200, seed: int = 0) -> dict:
    """Inline data of two numeric features and one categorical, two overlapping classes."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.4
    age = rng.normal(50 + 8 * ill, 10).round(1)
    pulse = rng.normal(70 + 10 * ill, 8).round(1)
    pain = np.where(rng.random(n) < 0.3 + 0.4 * ill, "strong", "mild")
    rows = [
        list(row)
        for row in zip(age.tolist(), pulse.tolist(), pain.tolist(), strict=True)
    ]
    return {
        "features": ["age", "pulse", "pain"],
        "rows": rows,
        "labels": ["ill" if is_ill else "healthy" for is_ill in ill],
    }


def csv_of(data: dict) -> str:
    """Inline data as a table whose last column is `label`."""
    lines = [
        [*row, label] for row, label in zip(data["rows"], data["labels"], strict=True)
    ]
    return "\n".join(
        ",".join(map(str, line)) for line in ([*data["features"], "label"], *lines)
    )


def uploaded(client: httpx.Client, data: dict) -> str:
    """The id of the data set of a table."""
    answer = client.post(
        "/datasets",
        files={"file": ("table.csv", csv_of(data))},
        data={"label": "label"},
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


@pytest.fixture(scope="session")
def ward(service: httpx.Client) -> str:
    """The name of a trained two-class model (healthy, ill) with a categorical feature and a hold-out."""
    trained(
        service,
        {
            "model": "ward",
            "learner": {"kind": "logistic"},
            "data": two_class_rows(),
            "holdout": 0.3,
        },
    )
    return "ward"


@pytest.fixture(scope="session")
def numeric(service: httpx.Client) -> str:
    """The name of a model of the same classes whose two features are numbers."""
    data = two_class_rows()
    numbers = data | {
        "features": ["age", "pulse"],
        "rows": [row[:2] for row in data["rows"]],
    }
    trained(
        service,
        {
            "model": "numeric",
            "learner": {"kind": "logistic"},
            "data": numbers,
            "holdout": 0,
        },
    )
    return "numeric"


@pytest.fixture(scope="session")
def forest(service: httpx.Client) -> str:
    """The name of a small forest of the same classes, for which `/acquire` asks features in order."""
    prices = {"age": 1, "pulse": 2, "pain": 3}
    learner = {"kind": "random_forest", "n_estimators": 2}
    trained(
        service,
        {
            "model": "woods",
            "learner": learner,
            "data": two_class_rows(),
            "feature_costs": prices,
        },
    )
    return "woods"
