"""Which feature next, as the use case says it: against the session step by step, and against the simulation."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.access.caller import ANYBODY, Caller, Scope
from app.answering import acquire as usecase
from app.answering.acquisition_model import AcquisitionModel, acquisition_model
from app.answering.simulate import SimulateRequest, report
from app.answering.simulate import simulate as simulated
from app.api.routes.acquire import documents
from app.errors import Forbidden
from app.registry.card import Card, DataCard, FeatureCard, LearnerCard
from app.registry.loaded import Loaded
from app.tables.features import Feature, Schema
from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import Prepared
from payoff.errors import pointer
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.cost_tree.estimator import CostTree
from payoff.learners.forest_chain import ForestChain
from payoff.learners.random_forest import RandomForest

NAMES = ("a", "b", "c", "d", "word")
WORDS = ("no", "perhaps", "yes")
B = [[0, -12], [-60, 30]]
seeds = st.integers(0, 10**6)


def rows(n, seed):
    """Five features, the last one categorical, two overlapping classes, some gaps."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n)
    X = random.normal(size=(n, 5)) + y[:, None] * np.array([0.4, 0.8, 1.2, 0.2, 0])
    X[:, 4] = random.integers(0, 3, n)
    X[:, 4] = np.where(random.random(n) < 0.4, 2 * y, X[:, 4])
    X[random.random(X.shape) < 0.05] = np.nan
    return np.round(X, 2), y


PRICES = Prices(
    np.array([1.0, 4.0, 6.0, 0.0, 2.0]),
    np.array([1.0, 1.0, 2.5, 0.0, 2.0]),
    np.array([-1, 0, 0, -1, -1], np.int32),
    ("blood",),
)


def loaded(estimator, kind, prices=PRICES):
    features = [FeatureCard(name=name, type="numeric") for name in NAMES[:4]]
    features.append(
        FeatureCard(name="word", type="categorical", categories=list(WORDS))
    )
    card = Card(
        name="m", version=1, learner=LearnerCard(kind=kind), features=features, labels=["y"], classes=["ill", "well"],
        data=DataCard(digest="x", rows=1), feature_costs=prices.listed(NAMES), fitted={"acquire": "possible"},
    )  # fmt: skip
    schema = Schema(
        [Feature(name, "numeric") for name in NAMES[:4]]
        + [Feature("word", "categorical", WORDS)]
    )
    return Loaded(card, schema, estimator, None)


MAKERS = {
    "random_forest": lambda **rest: RandomForest(n_estimators=15, **rest),
    "budget_forest": lambda **rest: BudgetForest(
        alpha=2, n_estimators=15, feature_costs=PRICES, **rest
    ),
    "forest_chain": lambda **rest: ForestChain(
        n_estimators=5, least=0.0, feature_costs=PRICES, **rest
    ),
    "cost_tree": lambda **rest: CostTree(
        depth=3, trade_off=1e-4, feature_costs=PRICES, **rest
    ),
}


@pytest.fixture(scope="module", params=MAKERS)
def model(request):
    """A published forest that has learnt when to stop, or a tree."""
    X, y = rows(300, 0)
    made = MAKERS[request.param](categorical_features=[4], random_state=0).fit(X, y)
    if hasattr(made, "learn_stops"):
        made.learn_stops(X, y, PRICES)
    return loaded(made, request.param)


def asked(**changes):
    return usecase.AcquireRequest(model="m", **changes)


def acquire(model, cases, asked):
    return usecase.acquire(model, cases, asked, partial(pointer, "cases"))


def value(x, j):
    if np.isnan(x[j]):
        return None
    return WORDS[int(x[j])] if j == 4 else float(x[j])


def play(model, x, question):
    """Feed one row as asked; the last answer, the prices paid, and the number of questions."""
    known, paid, budget = {}, 0.0, question.budget
    while True:
        now = next(documents(acquire(model, [known], question)))
        assert now["spent"] == pytest.approx(paid)
        assert now["remaining"] == (
            None if budget is None else pytest.approx(max(budget - paid, 0))
        )
        if now["status"] == "decided":
            assert now["next"] is None
            if budget is None and question.benefits is None:  # nothing cuts it short
                assert (
                    now["prediction"]
                    == ("ill", "well")[model.estimator.model_.predict(x[None])[0]]
                )
            return now, paid, len(known)
        assert now["reason"] is None
        assert now["next"]["feature"] not in known
        j = NAMES.index(now["next"]["feature"])
        known[NAMES[j]] = value(x, j)
        paid += 0 if np.isnan(x[j]) else now["next"]["cost"]


@settings(deadline=None, max_examples=20)
@given(
    seed=seeds,
    budget=st.sampled_from([None, 0, 3, 6.5, 9]),
    size=st.sampled_from([0.1, 1, 30]),
)
def test_the_simulation_is_the_mean_of_steps(model, seed, budget, size):
    """Cost, questions, error, benefit and net benefit of every way are those of rows that are played one by one, whose
    prices add up; the vote ends in the class of the complete row where no budget cuts it short.
    """
    X, y = rows(4, seed)
    benefits = (np.array(B) * size).tolist()
    stakes = Prepared(np.array(benefits), ("ill", "well"))
    ready = acquisition_model(model)
    told = report(ready, X, y, PRICES, stakes, [] if budget is None else [budget])[
        "budgets"
    ][0]
    assert ("vote_stopping" in told) == ready.votes
    ways = {"vote_stopping" if ready.votes else "plain": asked(budget=budget)}
    if ready.learns:
        ways["worth_stopping"] = asked(budget=budget, benefits=benefits)
    assert ("worth_stopping" in told) == ready.learns
    for way, question in ways.items():
        ends = [play(model, x, question) for x in X]
        assert told[way]["cost"] == pytest.approx(
            np.mean([paid for _, paid, _ in ends])
        )
        assert told[way]["questions"] == pytest.approx(
            np.mean([count for *_, count in ends])
        )
        wrong = [
            last["prediction"] != ("ill", "well")[truth]
            for (last, *_), truth in zip(ends, y, strict=True)
        ]
        assert told[way]["error"] == pytest.approx(np.mean(wrong))
        if way == "worth_stopping":
            chosen = [("ill", "well").index(last["decision"]) for last, *_ in ends]
            earned = np.mean(
                [benefits[truth][a] for truth, a in zip(y, chosen, strict=True)]
            )
            assert told[way]["benefit"] == pytest.approx(earned)
            assert told[way]["net_benefit"] == pytest.approx(earned - told[way]["cost"])


def test_a_finished_case_has_the_probabilities_of_predict(model):
    """Where every tree has its answer, the probabilities are the estimator's posterior for the complete row."""
    X, _ = rows(20, 5)
    cases = [{name: value(x, j) for j, name in enumerate(NAMES)} for x in X]
    answers = list(documents(acquire(model, cases, asked())))
    P = [[now["probabilities"][name] for name in ("ill", "well")] for now in answers]
    np.testing.assert_allclose(P, model.estimator.posterior(X), rtol=1e-12)
    assert {now["reason"] for now in answers} <= {"resolved", "unavailable"}


def test_a_word_that_training_never_saw_has_been_bought(model):
    """It is charged, alone and in a simulation; null is not."""
    known = [{"word": "never"}, {"word": None}, {"word": "yes"}]
    spent = [now["spent"] for now in documents(acquire(model, known, asked()))]
    assert spent == [2, 0, 2]
    order = SimulateRequest(
        model="m",
        rows=[[1, 1, 1, 1, "never"], [1, 1, 1, 1, None]],
        labels=["ill", "well"],
    )
    told = simulated(None, model, order, ANYBODY)
    full = sum(PRICES.paid([1, 2, 0, 3, 4]))
    assert told["everything"]["cost"] == full - 1


def test_a_key_to_predict_learns_no_values_of_a_data_set_by_cells(model):
    order = SimulateRequest(
        model="m",
        dataset="ds",
        benefits=[[{"column": "a"}, 0], [0, 1]],
        actions=["x", "y"],
    )
    with pytest.raises(Forbidden):
        simulated(None, model, order, Caller("ann", scopes=frozenset({Scope.PREDICT})))


def test_what_is_unavailable_is_not_asked_for(model):
    """All features unavailable: decided at once, at no cost, as for a row without any value."""
    now = next(documents(acquire(model, [{}], asked(unavailable=NAMES))))
    assert (now["status"], now["reason"], now["spent"], now["frontier"]) == (
        "decided",
        "unavailable",
        0,
        [],
    )
    assert (
        now["trees_resolved"]
        == now["trees"]
        == (15 if acquisition_model(model).votes else 1)
    )


def test_nothing_is_bought_where_the_truth_does_not_matter(model):
    """One action is best whatever the class: not worth any price. What is free is asked for all the same, and all by a
    tree of classifiers, which says so.
    """
    dominated, free = (
        asked(benefits=[[5, 1], [5, 1]], feature_costs=dict.fromkeys(NAMES, cost))
        for cost in (1, 0)
    )
    answer = acquire(model, [{}], dominated)
    now, learns = next(documents(answer)), acquisition_model(model).learns
    assert (now["reason"], now["expected_gain"]) == (
        ("not_worth_it", 0) if learns else (None, None)
    )
    assert now["decision"] == "ill"
    assert learns or "do not stop" in answer.warnings[-1]
    assert next(documents(acquire(model, [{}], free)))["status"] == "acquire"


def test_without_experience_benefits_decide_but_do_not_stop():
    """A forest that could not learn when to stop says so."""
    X, y = rows(60, 4)
    forest = RandomForest(n_estimators=5, categorical_features=[4], random_state=0).fit(
        X, y
    )
    answer = acquire(loaded(forest, "random_forest"), [{}], asked(benefits=B))
    now = next(documents(answer))
    assert "could not learn" in answer.warnings[0]
    assert (now["expected_gain"], now["status"]) == (None, "acquire")


def test_buying_everything_and_nothing(model):
    """All features in their cheapest order, and none; the last line has no budget."""
    X, y = rows(50, 8)
    told = report(
        AcquisitionModel.of(model.estimator, NAMES, ("ill", "well"), PRICES),
        X,
        y,
        PRICES,
    )
    expected = [
        min(
            sum(PRICES.paid(order))
            for order in permutations(np.flatnonzero(~np.isnan(x)))
        )
        for x in X
    ]
    assert told["everything"]["cost"] == pytest.approx(np.mean(expected))
    assert told["everything"]["error"] == pytest.approx(
        (model.estimator.model_.predict(X) != y).mean()
    )
    assert told["nothing"]["cost"] == told["nothing"]["questions"] == 0
    assert "worth_stopping" not in told["budgets"][0]
    assert told["budgets"][-1]["budget"] is None
    assert told["budgets"][-1]["plain"]["error"] == told["everything"]["error"]
    assert [run["budget"] for run in told["budgets"][:-1]] == sorted(
        run["budget"] for run in told["budgets"][:-1]
    )


def test_prices_that_make_the_order_stale_are_warned_about():
    """A chain's order is that of training: neighbours whose prices change threefold against each other are named."""
    X, y = rows(300, 0)
    chain = ForestChain(
        n_estimators=3,
        least=0.0,
        feature_costs=PRICES,
        categorical_features=[4],
        random_state=0,
    )
    model = loaded(chain.fit(X, y), "forest_chain")
    first, second = (NAMES[j] for j in chain.order_[:2])
    prices = dict(zip(NAMES, PRICES.cost.tolist(), strict=True))
    for factor, warned in (
        (1, False),
        (2.9, False),
        (3.1, True),
        (0.3, True),
        (0, True),
    ):
        question = asked(feature_costs={first: prices[first] * factor})
        warnings = acquire(model, [{}], question).warnings
        assert (
            any(repr(first) in text and repr(second) in text for text in warnings)
            == warned
        )
    everything = asked(
        feature_costs={name: 7 * price for name, price in prices.items()}
    )
    assert acquire(model, [{}], everything).warnings == []
    some, changed = (
        [[1, 1, 1, 1, "no"], [1, 1, 1, 1, "yes"]],
        {first: 100 * prices[first]},
    )
    order = SimulateRequest(
        model="m", rows=some, labels=["ill", "well"], feature_costs=changed
    )
    assert any(
        "train with these prices" in text
        for text in simulated(None, model, order, ANYBODY)["warnings"]
    )


def test_the_worths_of_the_matrices_of_one_call_are_kept(model, monkeypatch):
    """With room for 64 the 66 matrices of a call that was repeated were computed 132 times."""
    acquirer = acquisition_model(model)
    if acquirer.experience is None:
        return
    computed, compute = [], type(acquirer.experience).worth

    def worth(experience, B, prices, budget):
        computed.append(B)
        return compute(experience, B, prices, budget)

    monkeypatch.setattr(type(acquirer.experience), "worth", worth)
    matrices = [np.array([[0.0, -12.0], [-60.0 + i, 30.0]]) for i in range(66)]
    for _ in range(2):
        worths = [acquirer.worth(matrix, PRICES, None) for matrix in matrices]

    assert len(computed) == 66
    assert len({id(each) for each in worths}) == 66
