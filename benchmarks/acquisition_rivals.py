"""What learners earn that ask for priced features, beside what others would do with the same prices.

   .venv/bin/python benchmarks/acquisition_rivals.py [folder] [--only SET …] [--learners NAME …] [--seeds 5] [--keep …]

Heart disease, diabetes and thyroid disease with the prices and matrices of `net_benefit.py`: mean net benefit per
patient on twice as many folds as seeds, and its difference to `forest_chain` on the same folds, with its standard error
over the seeds. Covertype at price 1: the error at a mean share of the features. Rivals:

- `lightgbm` (left out where it is not installed): boosted trees that pay for a feature where a row needs it first
  (`cegb_penalty_feature_lazy`). A case asks for what the next group of trees reads on its way, and stops by the
  recursion of the chain (least squares on the stake, from the last group to the first), with the prices of its own way.
  `cegb_tradeoff` is chosen by cross-validation.
- `l1 path`: logistic regressions with an L1 penalty of 12 strengths. Each asks for all features that it uses; the
  strength is chosen by cross-validation.
- `greedy subset`: the feature that raises the out-of-bag net benefit of a forest most comes next; a forest on the best
  subset.

`--keep` keeps what is found, so that the whole can run in pieces. One thread.

The smallest work:
`.venv/bin/python benchmarks/acquisition_rivals.py --only heart_cleveland --learners random_forest --seeds 1`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import acquisition
import fixed_sets
import net_benefit
import numpy as np
import rivals
from rivals import Matrices, Table

from app.acquisition.session import Prices
from app.learners.automatic import Automatic
from app.learners.budget_forest import BudgetForest
from app.learners.cost_tree.estimator import CostTree
from app.learners.forest_chain import ForestChain
from app.learners.random_forest import RandomForest
from app.learners.stepwise import net_benefits


def own(make: Callable[[Prices], Any]) -> Callable[[Table, Matrices], list[float]]:
    def earn(table: Table, matrices: Matrices) -> list[float]:
        model = make(table.prices).fit(table.X, table.y)
        if hasattr(model, "learn_stops"):  # a chain has learned it
            model.learn_stops(table.X, table.y, table.prices)
        return [net_benefits(model, table.new, table.truth, table.prices, B).mean() for B in matrices]

    return earn


def tree_earns(table: Table, matrices: Matrices) -> list[float]:
    found = []
    with net_benefit.one_path(net_benefit.TRADE_OFFS):
        for B in matrices:
            model = CostTree(feature_costs=table.prices, benefits=B, random_state=0).fit(table.X, table.y)
            model.experience_ = None
            found.append(net_benefits(model, table.new, table.truth, table.prices, B).mean())
    return found


def auto_earns(table: Table, matrices: Matrices) -> list[float]:
    found = []
    for B in matrices:
        model = Automatic(feature_costs=table.prices, benefits=B, max_seconds=1e6, random_state=0)
        winner = model.fit(table.X, table.y).winner
        found.append(net_benefits(winner, table.new, table.truth, table.prices, B).mean())
    return found


def own_errors(make: Callable[[int], Any]) -> Callable[[Table], np.ndarray]:
    def errors(table: Table) -> np.ndarray:
        model = make(0).fit(table.X, table.y)
        if hasattr(model, "learn_stops"):
            model.learn_stops(table.X, table.y, table.prices)
        return acquisition.error_at(model, table.new, table.truth, table.prices)

    return errors


EARN: dict[str, Callable[[Table, Matrices], list[float]]] = {
    "forest_chain": own(lambda prices: ForestChain(feature_costs=prices, random_state=0)),
    "random_forest": own(lambda _: RandomForest(n_estimators=40, max_features=None, random_state=0)),
    "budget_forest": own(lambda prices: BudgetForest(feature_costs=prices, random_state=0)),
    "cost_tree": tree_earns,
    "auto": auto_earns,
    "l1 path": fixed_sets.l1_earns,
    "greedy subset": fixed_sets.subsets_earn,
    "lightgbm": rivals.lightgbm_earns,
}
ERRORS: dict[str, Callable[[Table], np.ndarray]] = {
    "forest_chain": own_errors(lambda seed: ForestChain(random_state=seed)),
    "random_forest": own_errors(
        lambda seed: RandomForest(n_estimators=40, max_features=None, calibration="none", random_state=seed)
    ),
    "budget_forest": own_errors(lambda seed: BudgetForest(alpha=0, n_estimators=40, random_state=seed)),
    "l1 path": fixed_sets.l1_errors,
    "greedy subset": fixed_sets.subset_errors,
    "lightgbm": rivals.lightgbm_errors,
}


def folds(folder: Path, name: str, seed: int) -> list[Table]:
    X, y, prices = net_benefit.load(folder, name)
    return [Table(X[i], y[i], X[o], y[o], prices) for i, o in net_benefit.halves(y, seed)]


def kept(keep: Path | None, name: str, find: Callable[[], Any]) -> np.ndarray:
    """What is found, or was found before."""
    file = None if keep is None else keep / f"{name.replace(' ', '_')}.npy"
    if file is not None and file.exists():
        return np.load(file)
    found = np.array(find())
    if file is not None:
        np.save(file, found)
    return found


def compared(chosen: argparse.Namespace, name: str, columns: list[str], find: Callable[[str, int], Any]) -> None:
    """A line for each learner: its mean, and its difference to the chain with the standard error over the seeds."""
    found = {}
    for learner in chosen.learners:
        start = time.perf_counter()
        runs = [
            kept(chosen.keep, f"{name} {learner} {seed}", lambda one=learner, seed=seed: find(one, seed))
            for seed in range(chosen.seeds)
        ]
        found[learner] = np.array(runs).reshape(chosen.seeds, -1, len(columns)).mean(axis=1)
        print(f"  {name} {learner} {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{'':32}" + "".join(f"{column:>26}" for column in columns))
    for learner, runs in found.items():
        gaps = runs - found.get("forest_chain", runs)
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else gaps[0] * np.nan
        cells = zip(runs.mean(axis=0), gaps.mean(axis=0), errors, strict=True)
        print(f"{name:16}{learner:16}" + "".join(f"{m:11.4g} ({g:6.3g}±{e:5.3g})" for m, g, e in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=acquisition.DATA)
    parser.add_argument("--only", nargs="+", choices=[*net_benefit.CASES, "covtype"], default=[*net_benefit.CASES])
    parser.add_argument("--learners", nargs="+", choices=list(EARN), default=list(EARN))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    if "lightgbm" in chosen.learners and find_spec("lightgbm") is None:
        print("lightgbm is left out: it is not installed")
        chosen.learners.remove("lightgbm")
    for name in chosen.only:
        if name == "covtype":
            chosen.learners = [learner for learner in chosen.learners if learner in ERRORS]
            shares = [f"{share:.0%}" for share in acquisition.SHARES]
            compared(chosen, name, shares, lambda learner, seed: ERRORS[learner](
                Table(*acquisition.covtype(chosen.folder, seed))))  # fmt: skip
            continue
        matrices = [scale * np.array(net_benefit.CASES[name], dtype=float) for scale in net_benefit.SCALES]
        scales = [f"x {scale:g}" for scale in net_benefit.SCALES]
        compared(chosen, name, scales, lambda learner, seed, name=name, matrices=matrices: [
            EARN[learner](table, matrices) for table in folds(chosen.folder, name, seed)])  # fmt: skip


if __name__ == "__main__":
    main()
