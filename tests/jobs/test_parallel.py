"""Pieces of a job's work on threads and on a real Dask cluster: the same results, and what becomes of failures."""

import threading

import numpy as np
import pytest
from joblib import Parallel, delayed

from app.errors import Unavailable
from app.jobs import cluster, parallel
from app.jobs.job import Died
from app.jobs.parallel import pieces_run_on
from app.requests.specifications import CompareSpec
from app.tables.dataset import Table
from app.tables.features import Feature, Schema
from app.training import trials
from payoff import progress
from payoff.decisions.folds import stratified_folds
from payoff.errors import Invalid
from payoff.learners import catalogue
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.logistic import Logistic
from payoff.learners.random_forest import RandomForest
from tests.jobs import pieces, targets
from tests.servers.dask import DaskCluster
from tests.servers.program import free_port

LEARNERS = {
    "random_forest": lambda: RandomForest(
        n_estimators=18, random_state=0, categorical_features=[0]
    ),
    "budget_forest": lambda: BudgetForest(
        n_estimators=18, random_state=0, categorical_features=[0], alpha=2.0
    ),
    "budget": lambda: BudgetForest(
        budget=3.0,
        random_state=0,
        n_estimators=5,
        feature_costs=[1.0, 2.0, 4.0, 1.0, 1.0],
    ),
    "gradient_boosting": lambda: GradientBoosting(max_iter=5, random_state=0),
    "logistic": lambda: Logistic(random_state=0, calibration="isotonic"),
}


def cases(n=600):
    random = np.random.default_rng(7)
    X = random.normal(size=(n, 5))
    X[:, 0] = random.integers(0, 6, n)
    X[random.random((n, 5)) < 0.05] = np.nan
    return X, (np.nan_to_num(X[:, 1] + X[:, 0] / 3) + random.normal(size=n) > 1).astype(
        int
    )


@pytest.fixture
def mortal(monkeypatch):
    """A cluster of one's own, to be killed; a piece may lose one worker and no more."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "1")
    made = DaskCluster(2)
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.sampled
def test_where_pieces_run_does_not_change_a_bit(dask_cluster, kind):
    X, y = cases()
    fitted = []
    for place in (("", 1), ("", 2), (dask_cluster, 1)):
        with pieces_run_on(*place):
            fitted.append(LEARNERS[kind]().fit(X, y))
    here, *elsewhere = [model.posterior(X) for model in fitted]
    for P in elsewhere:
        np.testing.assert_array_equal(P, here)
    assert len({repr(model.get_params()) for model in fitted}) == 1


def test_comparisons_are_the_same_wherever_their_fits_run(dask_cluster):
    X, y = cases()
    schema = Schema(tuple(Feature(name, "number") for name in "abcde"))
    table = Table(
        schema=schema, X=X, y=y, classes=("no", "yes"), labels=("label",), digest=""
    )
    learners = [
        {"kind": kind, "parameters": catalogue.resolve({"kind": kind}).parameters}
        for kind in ("logistic", "cost_naive_bayes")
    ]
    learners[0]["parameters"]["C"] = -1.0  # cannot be fitted, and spoils nothing
    order = {
        "dataset": "d",
        "learners": learners,
        "benefits": [[0.0, -1.0], [-10.0, 5.0]],
        "folds": 3,
        "seed": 0,
    }
    spec = CompareSpec.model_validate(order)
    found = []
    for place in (("", 1), (dask_cluster, 1)):
        with pieces_run_on(*place):
            found.append(trials.trials_of(table, stratified_folds(y, 3, 0), spec))
    for here, there in zip(*found, strict=True):
        assert (here.name, here.converged, str(here.failure)) == (
            there.name,
            there.converged,
            str(there.failure),
        )
    assert found[0][0].failure is not None
    np.testing.assert_array_equal(found[0][1].scores, found[1][1].scores)


def test_progress_arrives_as_pieces_finish(dask_cluster):
    heard = []
    with (
        pieces_run_on(dask_cluster, 1),
        progress.listen(lambda fraction, stage: heard.append((fraction, stage))),
    ):
        sums = list(pieces.shares(4))
        assert Parallel()([delayed(targets.pools)()]) == [{1}], (
            "a piece uses one thread"
        )
    assert heard == [(number / 4, f"piece {number}") for number in range(1, 5)]
    assert sums == [pieces.ROWS[number::7].sum() for number in range(4)]


def test_an_error_of_the_work_comes_back_as_it_is(dask_cluster):
    X, y = cases(200)
    X[3, 1] = 1e300
    with (
        pieces_run_on(dask_cluster, 1),
        pytest.raises(Invalid, match=r"at most 3.4e\+38"),
    ):
        RandomForest(random_state=0).fit(X, y)
    with pieces_run_on(dask_cluster, 1), pytest.raises(ZeroDivisionError):
        Parallel()(delayed(divmod)(number, 0) for number in range(3))


def test_a_scheduler_that_is_not_there_is_said_to_be_away_without_its_address(
    monkeypatch,
):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.5)
    address = f"tcp://127.0.0.1:{free_port()}"
    with (
        pieces_run_on(address, 1),
        pytest.raises(Unavailable, match="the Dask cluster cannot be reached"),
    ):
        list(pieces.shares(2))


def test_an_absent_library_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(parallel, "find_spec", lambda _name: None)
    parallel.check_installed("")
    with pytest.raises(Invalid, match=r"requirements-scale\.lock"):
        parallel.check_installed("tcp://127.0.0.1:1")


def test_other_versions_on_a_worker_are_refused(dask_cluster, monkeypatch):
    monkeypatch.setattr(cluster, "versions", lambda: {"scikit-learn": "0.1"})
    with (
        pieces_run_on(dask_cluster, 1),
        pytest.raises(Unavailable, match=r"a Dask worker has scikit-learn .* job 0.1"),
    ):
        list(pieces.shares(2))


def test_a_lost_worker_costs_nothing_but_time(mortal):
    with pieces_run_on(mortal.address, 1):
        sums = pieces.shares(12, seconds=0.1)
        assert next(sums) == pieces.ROWS[::7].sum()
        mortal.workers[0].kill()
        assert list(sums) == [pieces.ROWS[number::7].sum() for number in range(1, 12)]


def test_a_lost_scheduler_ends_the_attempt_in_clear_words(mortal):
    with pieces_run_on(mortal.address, 1):
        sums = pieces.shares(50, seconds=0.1)
        next(sums)
        threading.Timer(0.2, mortal.scheduler.kill).start()
        with pytest.raises(
            Unavailable, match=r"lost what it was given|cannot be reached"
        ):
            list(sums)


def test_a_piece_that_kills_its_worker_counts_as_a_death(mortal):
    with (
        pieces_run_on(mortal.address, 1),
        pytest.raises(Died, match="ended several Dask workers"),
    ):
        Parallel()([delayed(pieces.die)(1)])
