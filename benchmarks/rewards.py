"""What policies learned from rewards earn, beside Vowpal Wabbit, EconML and a model per action; and how often intervals
and verdicts of the judgement are right.

    .venv/bin/python benchmarks/rewards.py [--seeds 4] [--peers PYTHON] [--judge 0]

`--peers` is the interpreter of an environment with vowpalwabbit and econml (`pip install vowpalwabbit econml`): the same
logs are given to it in files. `--judge 100` judges policies in so many worlds instead, `--month` plays ten rounds of
serving, exploring and training. The results are in benchmarks/rewards.md.

The smallest work: `.venv/bin/python benchmarks/rewards.py --seeds 1 --rows 300`
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor

from payoff.evidence.policies import LoggedRewards, judge
from payoff.learners.rewards.estimator import Rewards

PEERS = Path(__file__).with_name("rewards_peers.py")


class Log(NamedTuple):
    """Rows, actions, rewards and chances to learn from; new rows with the rewards of all actions."""

    X: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    chances: np.ndarray
    X_new: np.ndarray
    every: np.ndarray


def digits(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Which digit is it: 1 for the right one of ten actions."""
    X, y = load_digits(return_X_y=True)
    rows = random.permutation(len(X))[: n + 700]
    return X[rows], np.eye(10)[y[rows]]


def prices(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Five prices: each earns itself where the customer pays it."""
    X = random.normal(size=(n + 3000, 6))
    value = np.exp(1 + 0.5 * X[:, 0] + 0.4 * (X[:, 1] > 0) * X[:, 2])
    offers = np.array([1.0, 2.0, 3.0, 5.0, 8.0])
    pays = 1 / (1 + np.exp(-3 * np.log(value[:, None] / offers)))
    return X, pays * offers - 0.5


def treatments(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Small effects of two treatments beside a large level."""
    X = random.normal(size=(n + 3000, 8))
    level = 3 * np.sin(X[:, 0]) + 2 * np.abs(X[:, 1]) + X[:, 2]
    first = 0.5 * (X[:, 3] > 0) + 0.3 * X[:, 4] - 0.2
    second = 0.4 * (X[:, 5] > 0.5) - 0.1
    return X, np.stack([level, level + first, level + second], axis=1)


def nothing(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """One action is best for all: whoever tells cases apart loses."""
    X = random.normal(size=(n + 3000, 6))
    level = X[:, 0] + np.maximum(X[:, 1], 0)
    return X, np.stack([level, level + 0.15, level + 0.05], axis=1)


WORLDS = {
    "digits": digits,
    "prices": prices,
    "treatments": treatments,
    "nothing": nothing,
}
NOISE = {"digits": 0.0, "prices": 1.0, "treatments": 1.0, "nothing": 1.0}


def log_of(world: str, rows: int, epsilon: float, seed: int) -> Log:
    """A log of a share of random actions; the others follow a rough rule, as a service does."""
    random = np.random.default_rng(10_000 + seed)
    X, every = WORLDS[world](random, rows)
    A = every.shape[1]
    habit = every[:rows].mean(axis=0).argsort()[-1 - (X[:rows, 0] > np.median(X[:, 0]))]
    chances = np.full((rows, A), epsilon / A)
    chances[np.arange(rows), habit] += 1 - epsilon
    actions = np.array([random.choice(A, p=p) for p in chances])
    noise = NOISE[world] * random.normal(size=rows)
    rewards = every[np.arange(rows), actions] + noise
    return Log(X[:rows], actions, rewards, chances, X[rows:], every[rows:])


def value(log: Log, chosen: np.ndarray) -> float:
    """What these actions earn: 0 as random ones, 1 as the best of each row."""
    earned = log.every[np.arange(len(chosen)), chosen].mean()
    best = log.every.max(axis=1).mean()
    return float((earned - log.every.mean()) / (best - log.every.mean()))


def ours(log: Log) -> dict[str, np.ndarray]:
    """The choices of the learner, and of boosting per action as it comes."""
    taken = log.chances[np.arange(len(log.X)), log.actions]
    model = Rewards(random_state=0).fit(
        log.X, log.rewards, actions=log.actions, propensities=taken
    )
    A = log.every.shape[1]
    scores = np.full((len(log.X_new), A), -np.inf)
    for action in range(A):
        rows = log.actions == action
        if rows.sum() >= 10:
            boosting = HistGradientBoostingRegressor(random_state=0)
            fitted = boosting.fit(log.X[rows], log.rewards[rows])
            scores[:, action] = fitted.predict(log.X_new)
    return {"rewards": model.predict(log.X_new), "boosting": scores.argmax(axis=1)}


def compare(seeds: range, rows: int, python: str | None) -> None:
    """Print the values, and the paired differences to the first learner."""
    runs: list[tuple[str, float, dict[str, float]]] = []
    began = time.perf_counter()
    for world in WORLDS:
        for epsilon in (1.0, 0.3):
            for seed in seeds:
                log = log_of(world, rows, epsilon, seed)
                chosen = ours(log)
                if python is not None:
                    chosen |= peers(log, python)
                values = {name: value(log, a) for name, a in chosen.items()}
                runs.append((world, epsilon, values))
                print(
                    world,
                    epsilon,
                    seed,
                    {k: round(v, 3) for k, v in values.items()},
                    flush=True,
                )
    print(f"{len(runs)} runs, {time.perf_counter() - began:.0f} s")
    for world in (*WORLDS, "all"):
        of_world = [values for name, _, values in runs if world in (name, "all")]
        mean = np.mean([values["rewards"] for values in of_world])
        line = [f"{world}: {mean:.3f}"]
        for name in dict.fromkeys(name for values in of_world for name in values):
            gaps = [v["rewards"] - v[name] for v in of_world if name in v]
            if name != "rewards" and len(gaps) > 1:
                error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
                line.append(f"less {name} {np.mean(gaps):+.3f} ± {error:.3f}")
        print("; ".join(line))


def peers(log: Log, python: str) -> dict[str, np.ndarray]:
    """The choices of the peers, in their own environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "log.npz", Path(folder) / "chosen.npz"
        np.savez(source, **log._asdict())
        subprocess.run([python, "-W", "ignore", PEERS, source, target], check=True)
        return dict(np.load(target))


def month(seed: int, world: str = "prices", rounds: int = 10, rows: int = 200) -> None:
    """Print what rounds of serving, exploring and training earn, beside the action with the best mean."""
    random = np.random.default_rng(70_000 + seed)
    X, every = WORLDS[world](random, rounds * rows)
    A = every.shape[1]
    earned = {"learned": [0.0], "best mean": [0.0]}
    for name, values in earned.items():
        actions = np.zeros(0, dtype=int)
        rewards, chances = np.zeros(0), np.zeros(0)
        for number in range(rounds):
            part = slice(number * rows, (number + 1) * rows)
            best = None
            if number and name == "best mean":
                means = np.bincount(actions, rewards, A) / np.bincount(
                    actions, minlength=A
                )
                best = np.full(rows, means.argmax())
            elif number:
                model = Rewards(random_state=0).fit(
                    X[: number * rows], rewards, actions=actions, propensities=chances
                )
                best = model.predict(X[part])
            epsilon = 0.05 if number else 1.0
            drawn = random.integers(A, size=rows)
            chosen = (
                drawn
                if best is None
                else np.where(random.random(rows) < epsilon, drawn, best)
            )
            p = np.full(rows, epsilon / A)
            if best is not None:
                p[chosen == best] += 1 - epsilon
            gained = every[part][np.arange(rows), chosen]
            actions = np.append(actions, chosen)
            chances = np.append(chances, p)
            rewards = np.append(
                rewards, gained + NOISE[world] * random.normal(size=rows)
            )
            values.append(float(gained.sum()))
    best_of_all = every[: rounds * rows].max(axis=1).sum()
    print(
        f"{world}, seed {seed}: learned {sum(earned['learned']):.0f},"
        f" the action with the best mean {sum(earned['best mean']):.0f}, at most {best_of_all:.0f}"
    )


def judge_worlds(worlds: range) -> None:
    """Print how often intervals hold and verdicts are wrong, of a fixed policy and of the learned one."""
    counts: dict[str, list[Any]] = {"fixed": [], "learned": []}
    for seed in worlds:
        random = np.random.default_rng(50_000 + seed)
        n = int(random.choice([600, 1500]))
        X, every = treatments(random, 2 * n)
        X, every = X[: 2 * n], every[: 2 * n]
        scores = every + random.normal(size=every.shape)
        if seed % 2:  # a floorless softmax of a guess
            weights = np.exp(1.5 * (scores - scores.max(axis=1, keepdims=True)))
        else:
            weights = np.full(every.shape, 1.0)
        chances = weights / weights.sum(axis=1, keepdims=True)
        actions = np.array([random.choice(3, p=p) for p in chances])
        tail = random.lognormal(0, 1.5, 2 * n) * (seed % 3 == 0)
        rewards = every[np.arange(2 * n), actions] + tail - (tail > 0) * np.exp(1.125)
        rewards += random.normal(size=2 * n)
        train, held = slice(0, n), slice(n, None)
        model = Rewards(random_state=0).fit(
            X[train],
            rewards[train],
            actions=actions[train],
            propensities=chances[train],
        )
        expected = model.posterior(np.ascontiguousarray(X[held]))
        log = LoggedRewards(actions[held], rewards[held], chances[held], expected)
        logged = (chances[held] * every[held]).sum(axis=1)
        for name, chosen in (
            ("fixed", (X[held, 6] > 0) + 1),
            ("learned", expected.argmax(axis=1)),
        ):
            judged = judge(log, chosen)
            truth = (every[held][np.arange(n), chosen] - logged).mean()
            counts[name].append((judged, truth))
    for name, entries in counts.items():
        with_verdict = [(j, t) for j, t in entries if j.verdict != "cannot_be_judged"]
        inside = [j.gain.low <= t <= j.gain.high for j, t in with_verdict]
        better = sum(j.verdict == "better" and t <= 0 for j, t in with_verdict)
        worse = sum(j.verdict == "worse" and t >= 0 for j, t in with_verdict)
        print(
            f"{name}: {len(with_verdict)} of {len(entries)} judged, intervals hold {np.mean(inside):.3f},"
            f" false better {better}, false worse {worse}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--peers")
    parser.add_argument("--judge", type=int, default=0)
    parser.add_argument(
        "--month", action="store_true", help="rounds of serving and training"
    )
    chosen = parser.parse_args()
    if chosen.month:
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            month(seed)
    elif chosen.judge:
        judge_worlds(range(chosen.first, chosen.first + chosen.judge))
    else:
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        compare(seeds, chosen.rows, chosen.peers)
