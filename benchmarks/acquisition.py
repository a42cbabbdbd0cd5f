"""What learners earn that ask for priced features, beside other methods, and their error by the share asked for.

    .venv/bin/python benchmarks/acquisition.py money [--only SET …] [--learners NAME …] [--seeds 5]
    .venv/bin/python benchmarks/acquisition.py shares [--learners NAME …] [--seeds 3]

The two tables of benchmarks/acquisition.md, which describes data, prices, matrices and rivals. `money`: twice as many
folds as seeds; a learner is fitted on one half, which also learns when to stop, and each patient of the other half is
asked test by test. `shares`: as table 1 of Nan, Wang, Saligrama, "Feature-Budgeted Random Forest" (2015); learners stop
as more is not worth its price, from cheap errors to dear ones. The probabilities of rivals are calibrated, and all
choices made, on training rows that the model did not see.

The smallest work:
`.venv/bin/python benchmarks/acquisition.py money --only heart_cleveland --learners forest_chain nothing --seeds 1`
"""

import argparse
import csv
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from common import DATA, cells, standard_error
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from app.answering.acquisition_model import AcquisitionModel
from app.answering.simulate import report
from app.requests.costs import parse_prices
from payoff.acquisition.prices import Prices, purchases
from payoff.acquisition.stopping import Blend, at_stake
from payoff.decisions.benefit import Prepared, decide, row_benefits
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.cost_tree.estimator import CostTree
from payoff.learners.forest_chain import ForestChain
from payoff.learners.random_forest import RandomForest

SCALES = (
    0.5,
    1.0,
    2.0,
)  # of the matrix: 1 is the one stated, the others show what hangs on it
CASES: dict[str, list[list[float]]] = {
    # rows: the truth; columns: taken for …
    "heart_cleveland": [[0, -800], [-1600, 0]],  # no disease, disease
    "pima_diabetes": [[0, -100], [-200, 0]],  # no diabetes, diabetes
    "thyroid_ann": [
        [0, -160, -800],
        [-160, 0, -800],
        [-200, -200, 0],
    ],  # hyper, hypo (rare both), normal
}
GAPS = (
    "glucose_tol",
    "diastolic_bp",
    "triceps",
    "insulin",
    "mass_index",
)  # 0 stands for missing in the diabetes data
SIZES = np.geomspace(3, 20_000, 40)  # worth of a right class, in features
SHARES = (0.05, 0.08, 0.12, 0.16, 0.25)
STAGES = (1, 2, 4, 8, 16, 32, 64, 100)  # boosting rounds after which a case may stop
TRADE_OFFS = (
    0.0,
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
    1.0,
)  # in units of one nat for the mean price of a feature
STRENGTHS = np.geomspace(0.003, 10, 12)
PATIENCE = 2  # features that may fail to pay before the greedy search ends


class Table(NamedTuple):
    """Rows to learn from, and new ones."""

    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    truth: np.ndarray
    prices: Prices


Earn = Callable[[Table, list[np.ndarray]], list[float]]


def priced(name: str) -> tuple[np.ndarray, np.ndarray, Prices]:
    """Rows, class codes and prices; a feature without a price (computed from others) is left out."""
    with (DATA / f"{name}.costs.csv").open() as file:
        costs = [row for row in csv.DictReader(file) if row["cost"]]
    names = [row["feature"] for row in costs]
    header, text = cells(name)
    X = text[:, [header.index(column) for column in names]]
    X = np.where((X == "") | (X == "?"), "nan", X).astype(float)
    y = text[:, header.index("label")].astype(float).astype(int)
    if name == "heart_cleveland":
        y = (y > 0).astype(int)
    for gap in set(GAPS) & set(names):
        X[X[:, names.index(gap)] == 0, names.index(gap)] = np.nan
    listed: list[dict[str, Any]] = []
    for row in costs:
        entry: dict[str, Any] = {"feature": row["feature"], "cost": float(row["cost"])}
        group = {
            "group": row["group"],
            "discounted_cost": float(row["discounted_cost"]),
        }
        listed.append(entry | group if row["group"] else entry)
    return X, np.unique(y, return_inverse=True)[1], parse_prices(listed, names)


def covtype(seed: int) -> Table:
    """All seven classes; every feature at price 1."""
    table = np.random.default_rng(seed).permutation(
        cells("covtype_20k")[1].astype(float)
    )
    X, y = (
        np.ascontiguousarray(table[:, :-1]),
        np.unique(table[:, -1], return_inverse=True)[1],
    )
    return Table(
        X[:12_000], y[:12_000], X[12_000:], y[12_000:], Prices.unit(X.shape[1])
    )


def fitted(model: Any, table: Table) -> Any:
    model.fit(table.X, table.y)
    if hasattr(model, "learn_stops"):  # a chain has learned it
        model.learn_stops(table.X, table.y, table.prices)
    return model


def asked(model: Any, table: Table, B: np.ndarray) -> dict[str, Any]:
    """What the simulation of `/acquire` says of new rows."""
    names, classes = [f"x{j}" for j in range(table.X.shape[1])], list(range(len(B)))
    ready = AcquisitionModel.of(model, names, classes, table.prices)
    return report(
        ready, table.new, table.truth, table.prices, Prepared(B, classes), budgets=[]
    )


def while_worth(told: dict[str, Any]) -> float:
    """The net benefit of asking while it is worth its price; of a tree, which learns no stop, to its end."""
    ways = told["budgets"][-1]
    net_benefit: float = ways.get("worth_stopping", ways["plain"])["net_benefit"]
    return net_benefit


def own(
    make: Callable[[Prices, np.ndarray], Any],
    earns: Callable[[dict[str, Any]], float] = while_worth,
    *,
    each: bool = False,
) -> Earn:
    """A learner of the service, which is fitted once for all matrices, or for `each`."""

    def earn(table: Table, matrices: list[np.ndarray]) -> list[float]:
        models = [
            fitted(make(table.prices, B), table)
            for B in (matrices if each else matrices[:1])
        ]
        pairs = zip(models if each else models * len(matrices), matrices, strict=True)
        return [earns(asked(model, table, B)) for model, B in pairs]

    return earn


def every_feature(**changed: Any) -> RandomForest:
    return RandomForest(n_estimators=40, max_features=None, random_state=0, **changed)


def own_errors(model: Any, table: Table) -> np.ndarray:
    """The errors at SHARES of the features, between the mean costs of many benefits of the right class."""
    model, prices = fitted(model, table), table.prices
    n_features = table.X.shape[1]
    classes = list(range(table.truth.max() + 1))
    ready = AcquisitionModel.of(
        model, [str(j) for j in range(n_features)], classes, prices
    )
    run = model.model_.travel(table.new, prices)
    n, S = run.asked.shape
    states = np.broadcast_to(np.arange(S + 1), (n, S + 1))
    finished = states == run.length[:, None]
    P = ready.probabilities(
        run.P.reshape(n * (S + 1), -1), states.ravel(), finished.ravel()
    )
    points = []
    for size in SIZES:
        B = size * np.eye(P.shape[1])
        worth = ready.worth(B, prices, None)
        assert worth is not None
        stops = states >= run.length[:, None]
        stops[:, :S] |= worth.stops(
            run.asked, run.price, at_stake(P, B).reshape(n, S + 1)[:, :S]
        )
        at = np.arange(n), stops.argmax(axis=1)
        told = P.reshape(n, S + 1, -1)[at].argmax(axis=1)
        points.append((run.spent[at].mean() / n_features, (told != table.truth).mean()))
    return at_shares(points)


def at_shares(points: list[tuple[float, float]]) -> np.ndarray:
    """The error at SHARES between points (share, error); 1 before the first."""
    shares, errors = np.array(sorted(points)).T
    return np.interp(SHARES, shares, errors, left=1.0)


def charged(prices: Prices, used: np.ndarray) -> np.ndarray:
    """What the features `used` (n, m) cost together (n,): of a group, the first is that with the least discount."""
    order = np.argsort(prices.cost - prices.discounted, kind="stable")
    asked = np.where(used[:, order], order, -1)
    return purchases(asked, np.zeros(asked.shape, dtype=bool), prices)[1].sum(axis=1)


def earned(P: np.ndarray, y: np.ndarray, B: np.ndarray) -> np.ndarray:
    return row_benefits(y, decide(np.ascontiguousarray(P), B).choice, B)


def unseen(
    X: np.ndarray, y: np.ndarray, answer: Callable[[np.ndarray, np.ndarray], Any]
) -> tuple[np.ndarray, list]:
    """Rows, and what `answer` says fold by fold about them after it has seen the others: of a large table one third."""
    large = len(X) > 9000
    folds = list(
        StratifiedKFold(3 if large else 5, shuffle=True, random_state=0).split(X, y)
    )[: 1 if large else None]
    return np.concatenate([outside for _, outside in folds]), [
        answer(inside, outside) for inside, outside in folds
    ]


class Journeys(NamedTuple):
    """Probabilities (n, S, K) in each state, and what has been paid there (n, S)."""

    P: np.ndarray
    paid: np.ndarray


def boosted(X: np.ndarray, y: np.ndarray, prices: Prices, trade_off: float) -> Any:
    import lightgbm  # noqa: PLC0415 - a rival that this project does not need

    K, few = int(y.max()) + 1, len(X) < 1000
    settings: dict[str, Any] = {
        "objective": "multiclass" if K > 2 else "binary", "num_leaves": 15 if few else 63, "learning_rate": 0.1,
        "min_data_in_leaf": 5 if few else 20, "num_threads": 1, "verbose": -1, "seed": 0, "deterministic": True,
    }  # fmt: skip
    if K > 2:
        settings["num_class"] = K
    if trade_off:  # a penalty is for each row
        lazy = prices.cost / prices.cost.mean()
        settings |= {
            "cegb_tradeoff": trade_off,
            "cegb_penalty_feature_lazy": lazy.tolist(),
        }
    return lightgbm.train(settings, lightgbm.Dataset(X, y), STAGES[-1])


def paths(tree: dict[str, Any], m: int) -> np.ndarray:
    """The features on the way to each leaf, (leaves, m)."""
    found = np.zeros((tree["num_leaves"], m), dtype=bool)

    def walk(node: dict[str, Any], seen: tuple[int, ...]) -> None:
        if "split_feature" in node:
            for side in ("left_child", "right_child"):
                walk(node[side], (*seen, node["split_feature"]))
        else:
            found[node.get("leaf_index", 0), list(seen)] = True

    walk(tree["tree_structure"], ())
    return found


def staged(model: Any, X: np.ndarray, y: np.ndarray, prices: Prices) -> Journeys:
    """What each row (n, m) is told after no tree and after each of the STAGES, where training had classes y."""
    K, n = int(y.max()) + 1, len(X)
    leaves = model.predict(X, pred_leaf=True).reshape(n, -1)
    trees, per_round = model.dump_model()["tree_info"], model.num_model_per_iteration()
    P, paid = [np.tile(np.bincount(y, minlength=K) / len(y), (n, 1))], [np.zeros(n)]
    used, done, missing = np.zeros(X.shape, dtype=bool), 0, np.isnan(X)
    for stage in STAGES:
        for number in range(done, min(stage * per_round, len(trees))):
            used |= paths(trees[number], X.shape[1])[leaves[:, number]]
        done = stage * per_round
        told = model.predict(X, num_iteration=stage)
        P.append(told if K > 2 else np.stack((1 - told, told), axis=1))
        paid.append(charged(prices, used & ~missing))
    return Journeys(np.stack(P, axis=1), np.stack(paid, axis=1))


class Stops:
    """When a next state is not worth its price: from the last to the first, the net gain on the stake and its square,
    within the range of stakes that were seen.
    """

    def __init__(self, run: Journeys, y: np.ndarray, B: np.ndarray) -> None:
        S = run.P.shape[1]
        net = np.stack([earned(run.P[:, s], y, B) for s in range(S)], axis=1) - run.paid
        self.B, self.lines, value = B, {}, net[:, -1]
        for s in range(S - 2, -1, -1):
            z, gain = at_stake(run.P[:, s], B), value - net[:, s]
            low, width = z.min(), np.ptp(z)
            width = 1.0 if width <= 1e-9 * z.max() else width
            powers = np.vander((z - low) / width, 3)
            self.lines[s] = low, width, np.linalg.lstsq(powers, gain, rcond=1e-9)[0]
            value = np.where(self.goes_on(s, z), value, net[:, s])

    def goes_on(self, s: int, z: np.ndarray) -> np.ndarray:
        low, width, line = self.lines[s]
        return np.polyval(line, np.clip((z - low) / width, 0, 1)) > 0

    def ends(self, run: Journeys) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (n, K) where each row ends, and what it has paid."""
        stops = [
            ~self.goes_on(s, at_stake(run.P[:, s], self.B))
            for s in range(len(self.lines))
        ]
        rows, ends = (
            np.arange(len(run.P)),
            np.stack([*stops, np.ones(len(run.P), dtype=bool)], axis=1).argmax(axis=1),
        )
        return run.P[rows, ends], run.paid[rows, ends]


def lightgbm_runs(
    table: Table, trade_offs: tuple[float, ...]
) -> list[list[tuple[Journeys, np.ndarray]]]:
    """For each trade-off the journeys of training rows through models that did not see them, and of new rows; each with
    the true classes.
    """
    X, y, new, truth, prices = table
    found = []
    for trade_off in trade_offs:
        rows, parts = unseen(X, y, lambda inside, outside, t=trade_off: staged(
            boosted(X[inside], y[inside], prices, t), X[outside], y[inside], prices))  # fmt: skip
        seen = Journeys(
            *(
                np.concatenate([getattr(run, name) for run in parts])
                for name in Journeys._fields
            )
        )
        curves = [
            Blend.fit([seen.P[:, s]], y[rows], np.ones(len(rows)))
            for s in range(1, seen.P.shape[1])
        ]
        sides = []
        for run, classes in (
            (seen, y[rows]),
            (staged(boosted(X, y, prices, trade_off), new, y, prices), truth),
        ):
            states = [curve.apply([run.P[:, s + 1]]) for s, curve in enumerate(curves)]
            sides.append(
                (Journeys(np.stack([run.P[:, 0], *states], axis=1), run.paid), classes)
            )
        found.append(sides)
    return found


def lightgbm(table: Table, matrices: list[np.ndarray]) -> list[float]:
    runs, found = lightgbm_runs(table, TRADE_OFFS), []
    for B in matrices:
        ways = []
        for sides in runs:
            stops = Stops(*sides[0], B)
            ends = [(*stops.ends(run), y) for run, y in sides]
            ways.append([(earned(P, y, B) - paid).mean() for P, paid, y in ends])
        found.append(max(ways)[1])
    return found


def lightgbm_errors(table: Table) -> np.ndarray:
    """At each share the trade-off is the one with the least error there on training rows."""
    K, curves = int(table.y.max()) + 1, []
    for sides in lightgbm_runs(table, (0.01, 0.03, 0.1, 0.3)):
        points: list[list[tuple[float, float]]] = [[], []]
        for size in SIZES:
            stops = Stops(*sides[0], size * np.eye(K))
            for (run, y), kept in zip(sides, points, strict=True):
                P, paid = stops.ends(run)
                kept.append(
                    (paid.mean() / table.X.shape[1], (P.argmax(axis=1) != y).mean())
                )
        curves.append([at_shares(some) for some in points])
    inside, outside = np.moveaxis(np.array(curves), 1, 0)
    return np.take_along_axis(outside, inside.argmin(axis=0)[None], axis=0)[0]


def l1_path(table: Table, matrices: list[np.ndarray]) -> list[float]:
    X, y, new, truth, prices = table
    runs, found = [], []
    for C in STRENGTHS:

        def model(rows: np.ndarray, C: float = C) -> Any:
            linear = OneVsRestClassifier(
                LogisticRegression(
                    C=C, l1_ratio=1.0, solver="liblinear", random_state=0
                )
            )
            ranks = QuantileTransformer(
                n_quantiles=100
            )  # which a few heavy tails do not rule, as of TSH
            steps = (
                SimpleImputer(keep_empty_features=True),
                ranks,
                StandardScaler(),
                linear,
            )
            return make_pipeline(*steps).fit(X[rows], y[rows])

        rows, parts = unseen(
            X,
            y,
            lambda inside, outside, model=model: model(inside).predict_proba(
                X[outside]
            ),
        )
        P, whole = np.concatenate(parts), model(np.arange(len(X)))
        curve = Blend.fit([P], y[rows], np.ones(len(rows)))
        used = np.any([one.coef_[0] != 0 for one in whole[-1].estimators_], axis=0)
        seen, told = curve.apply([P]), curve.apply([whole.predict_proba(new)])
        paid = paid_for(X[rows], prices, used), paid_for(new, prices, used)
        runs.append(((seen, y[rows], paid[0]), (told, truth, paid[1])))
    for B in matrices:
        ways = [prior_earns(table, B)]
        ways += [
            tuple((earned(*side, B) - paid).mean() for *side, paid in sides)
            for sides in runs
        ]
        found.append(max(ways)[1])
    return found


def prior_earns(table: Table, B: np.ndarray) -> tuple[float, ...]:
    prior = np.bincount(table.y) / len(table.y)
    return tuple(
        earned(np.tile(prior, (len(y), 1)), y, B).mean() for y in (table.y, table.truth)
    )


def paid_for(
    X: np.ndarray, prices: Prices, columns: np.ndarray | list[int]
) -> np.ndarray:
    used = np.zeros(X.shape, dtype=bool)
    used[:, columns] = True
    return charged(prices, used & ~np.isnan(X))


def out_of_bag(
    X: np.ndarray, y: np.ndarray, trees: int
) -> tuple[RandomForestClassifier, np.ndarray]:
    leaf = 3 if len(X) < 9000 else 1
    model = RandomForestClassifier(
        trees, min_samples_leaf=leaf, oob_score=True, random_state=0, max_features=None
    )
    with warnings.catch_warnings(action="ignore"):  # a row that every tree has seen
        P = model.fit(X, y).oob_decision_function_
    return model, np.where(np.isfinite(P), P, 1 / P.shape[1])


def subset_told(table: Table, columns: list[int]) -> np.ndarray:
    """Calibrated P of the new rows, by a forest on these columns."""
    if not columns:
        return np.tile(np.bincount(table.y) / len(table.y), (len(table.new), 1))
    model, P = out_of_bag(table.X[:, columns], table.y, 100)
    return Blend.fit([P], table.y, np.ones(len(P))).apply(
        [model.predict_proba(table.new[:, columns])]
    )


def greedy_subset(table: Table, matrices: list[np.ndarray]) -> list[float]:
    found: list[float] = []
    told: dict[tuple[int, ...], np.ndarray] = {}
    for B in matrices:

        def worth(columns: list[int], B: np.ndarray = B) -> float:
            key = tuple(columns)
            if key not in told:
                told[key] = out_of_bag(table.X[:, columns], table.y, 25)[1]
            return float(
                (
                    earned(told[key], table.y, B)
                    - paid_for(table.X, table.prices, columns)
                ).mean()
            )

        left, way, values = (
            list(range(table.X.shape[1])),
            [[]],
            [prior_earns(table, B)[0]],
        )
        while left and np.argmax(values) >= len(values) - PATIENCE - 1:
            tried = {j: worth([*way[-1], j]) for j in left}
            best = max(tried, key=lambda j: tried[j])
            left.remove(best)
            way.append([*way[-1], best])
            values.append(tried[best])
        columns = way[int(np.argmax(values))]
        paid = paid_for(table.new, table.prices, columns)
        found.append(
            float((earned(subset_told(table, columns), table.truth, B) - paid).mean())
        )
    return found


EARN: dict[str, Earn] = {
    "forest_chain": own(
        lambda prices, _: ForestChain(feature_costs=prices, random_state=0)
    ),
    "random_forest": own(lambda *_: every_feature()),
    "budget_forest": own(
        lambda prices, _: BudgetForest(feature_costs=prices, random_state=0)
    ),
    "cost_tree": own(
        lambda prices, B: CostTree(feature_costs=prices, benefits=B, random_state=0),
        each=True,
    ),
    "nothing": own(
        lambda *_: every_feature(), lambda told: told["nothing"]["net_benefit"]
    ),
    "all asked for": own(
        lambda *_: every_feature(),
        lambda told: told["budgets"][-1]["plain"]["net_benefit"],
    ),
    "lightgbm": lightgbm,
    "l1 path": l1_path,
    "greedy subset": greedy_subset,
}
ERRORS: dict[str, Callable[[Table], np.ndarray]] = {
    "forest_chain": lambda table: own_errors(ForestChain(random_state=0), table),
    "random_forest": lambda table: own_errors(every_feature(calibration="none"), table),
    "budget_forest": lambda table: own_errors(
        BudgetForest(alpha=0, n_estimators=40, random_state=0), table
    ),
    "lightgbm": lightgbm_errors,
}


def compared(
    name: str, columns: list[str], learners: list[str], runs: Callable[[str], list[Any]]
) -> None:
    """A line for each learner: its mean, and its difference to the chain with the standard error over the seeds."""
    print(f"{'':32}" + "".join(f"{column:>26}" for column in columns))
    found: dict[str, np.ndarray] = {}
    for learner in learners:
        values = found[learner] = np.array(runs(learner))
        gaps = values - found.get("forest_chain", values)
        figures = zip(
            values.mean(axis=0), gaps.mean(axis=0), standard_error(gaps), strict=True
        )
        print(
            f"{name:16}{learner:16}"
            + "".join(f"{m:11.4g} ({g:6.3g}±{e:5.3g})" for m, g, e in figures),
            flush=True,
        )


def mean_of_halves(
    tables: list[list[Table]], matrices: list[np.ndarray], learner: str
) -> list[np.ndarray]:
    return [
        np.mean([EARN[learner](table, matrices) for table in halves], axis=0)
        for halves in tables
    ]


def money(sets: list[str], learners: list[str], seeds: int) -> None:
    for name in sets:
        X, y, prices = priced(name)
        matrices = [scale * np.array(CASES[name], dtype=float) for scale in SCALES]
        halves = [
            StratifiedKFold(2, shuffle=True, random_state=seed).split(y, y)
            for seed in range(seeds)
        ]
        tables = [
            [Table(X[i], y[i], X[o], y[o], prices) for i, o in two] for two in halves
        ]
        columns = [f"x {scale:g}" for scale in SCALES]
        compared(name, columns, learners, partial(mean_of_halves, tables, matrices))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("money", "shares"))
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--learners", nargs="+", choices=list(EARN), default=list(EARN))
    parser.add_argument("--seeds", type=int)
    chosen = parser.parse_args()
    if "lightgbm" in chosen.learners and find_spec("lightgbm") is None:
        print("lightgbm is left out: it is not installed")
        chosen.learners.remove("lightgbm")
    if chosen.what == "money":
        money(chosen.only, chosen.learners, chosen.seeds or 5)
    else:
        tables = [covtype(seed) for seed in range(chosen.seeds or 3)]
        learners = [name for name in chosen.learners if name in ERRORS]
        columns = [f"{share:.0%}" for share in SHARES]
        compared(
            "covtype",
            columns,
            learners,
            lambda name: [ERRORS[name](table) for table in tables],
        )


if __name__ == "__main__":
    main()
