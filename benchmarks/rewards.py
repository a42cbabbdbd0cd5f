"""What policies learned from rewards earn, beside Vowpal Wabbit, EconML and a model per action; and how often intervals
and verdicts of the judgement are right.

    .venv/bin/python benchmarks/rewards.py [--seeds 4] [--peers PYTHON]
    .venv/bin/python benchmarks/rewards.py --judge 200
    .venv/bin/python benchmarks/rewards.py --uplift 40
    .venv/bin/python benchmarks/rewards.py --month
    .venv/bin/python benchmarks/rewards.py --speed

`--peers` is the interpreter of an environment with vowpalwabbit and econml (`pip install vowpalwabbit econml`): the same
logs are given to it in files. `--judge` judges policies in so many worlds, `--uplift` draws uplift curves there, `--month` plays ten rounds of serving, exploring
and training, `--speed` asks a service of its own over HTTP. The results are in benchmarks/rewards.md.

The smallest work: `.venv/bin/python benchmarks/rewards.py --seeds 1 --rows 300`
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor

from payoff.decisions.folds import stratified_folds
from payoff.evidence.policies import LoggedRewards, PolicyJudgement, judge
from payoff.evidence.uplift import uplift_curve
from payoff.learners.rewards.estimator import Rewards
from tests.servers.service import Replica

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


class Judged(NamedTuple):
    """The log and the rewards of a world, whose policy, its judgement, and what it really gained over the log."""

    log: str
    rewards: str
    policy: str
    judgement: PolicyJudgement
    truth: float


class HeldOut(NamedTuple):
    """Cases that the model of their fold did not see, with the true rewards of all actions, and the features."""

    log: LoggedRewards
    fold: np.ndarray
    every: np.ndarray
    X: np.ndarray
    kind: tuple[str, str]


def held_out(seed: int) -> HeldOut:
    """The log of a world, as training judges it: small logs by folds, others on a hold-out."""
    random = np.random.default_rng(50_000 + seed)
    by_folds = seed // 12 % 4 == 3
    n = 600 if by_folds else int(random.choice([1200, 2000]))
    world = ("treatments", "prices", "nothing")[seed // 4 % 3]
    X, every = (part[:n] for part in WORLDS[world](random, n))
    A = every.shape[1]
    is_softmax, has_tails = seed % 2 == 1, seed // 2 % 2 == 1
    weights = np.ones((n, A))
    if is_softmax:  # of a guess, without a floor
        scores = every + random.normal(size=every.shape)
        weights = np.exp(1.5 * (scores - scores.max(axis=1, keepdims=True)))
    chances = weights / weights.sum(axis=1, keepdims=True)
    actions = np.array([random.choice(A, p=p) for p in chances])
    rewards = every[np.arange(n), actions] + random.normal(size=n)
    if has_tails:
        rewards += random.lognormal(0, 1.5, n) - np.exp(1.125)
    fold = np.arange(n) * 2 // n - 1
    if by_folds:
        fold = stratified_folds(actions, 4, seed)
    expected = np.zeros((n, A))
    for number in range(fold.max() + 1):
        train, held = fold != number, fold == number
        model = Rewards(random_state=0).fit(
            X[train],
            rewards[train],
            actions=actions[train],
            propensities=chances[train],
        )
        values = model.posterior(np.ascontiguousarray(X[held]))
        expected[held] = values.mean(axis=1, keepdims=True)
        expected[np.ix_(held, model.classes_)] = values
    held = fold >= 0
    return HeldOut(
        LoggedRewards(actions[held], rewards[held], chances[held], expected[held]),
        fold[held],
        every[held],
        X[held],
        (
            "softmax" if is_softmax else "uniform",
            "heavy tails" if has_tails else "normal",
        ),
    )


def judge_world(seed: int) -> list[Judged]:
    """Judge a fixed policy and the learned one."""
    log, _, every, X, kind = held_out(seed)
    logged = (log.chances * every).sum(axis=1)
    policies = {
        "fixed": (X[:, -1] > 0) + 1,
        "learned": log.expected.argmax(axis=1),
    }
    rows = np.arange(len(logged))
    return [
        Judged(
            *kind,
            name,
            judge(log, chosen),
            float((every[rows, chosen] - logged).mean()),
        )
        for name, chosen in policies.items()
    ]


def draw_curves(worlds: range) -> None:
    """Print how often the intervals of the area of uplift curves, and of the gain of treating half, hold."""
    counts: dict[tuple[str, str], np.ndarray] = {}
    for seed in worlds:
        log, fold, every, _, kind = held_out(seed)
        n, A = every.shape
        for treatment in range(1, A):
            drawn = uplift_curve(log, np.full(n, treatment), 0, fold)
            if drawn.reason is not None:
                continue
            uplift = log.expected[:, treatment] - log.expected[:, 0]
            places = np.zeros(n)  # of the cases, by their uplift, from 0 to 1
            for number in np.unique(fold):
                rows = fold == number
                places[rows] = (rankdata(-uplift[rows]) - 0.5) / rows.sum()
            effects = every[:, treatment] - every[:, 0]
            area = (effects * (0.5 - places)).mean()
            half = drawn.gains[len(drawn.gains) // 2]
            treated = np.where(places == 0.5, 0.5, places < 0.5)
            gain = (effects * treated).mean()
            holds = [
                drawn.area.low <= area <= drawn.area.high,
                half.low <= gain <= half.high,
                drawn.area.low > 0,
                drawn.area.low > max(area, 0),
            ]
            counts[kind] = counts.get(kind, np.zeros(5)) + np.array([1, *holds])
    print(
        "| log | rewards | curves | area holds | gain of half holds | above 0 | wrongly |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind, line in sorted(counts.items()):
        print(f"| {' | '.join(kind)} |", " | ".join(f"{x:.0f}" for x in line), "|")


def judge_worlds(worlds: range) -> None:
    """Print how often intervals hold, end on the wrong side of the truth, and verdicts have the wrong sign."""
    entries = []
    for seed in worlds:
        entries += judge_world(seed)
        if seed % 20 == 19:
            print(f"{seed + 1 - worlds.start} worlds", file=sys.stderr, flush=True)
    columns = (
        "judged", "interval holds", "ends above the truth", "below it", "better, wrongly", "worse, wrongly",
    )  # fmt: skip
    print("| policy | log | rewards |", " | ".join(columns), "|")
    print("|---" * (3 + len(columns)) + "|")
    for policy in ("fixed", "learned"):
        for log in ("uniform", "softmax", "all"):
            for rewards in ("normal", "heavy tails", "all"):
                chosen = [
                    entry
                    for entry in entries
                    if entry.policy == policy
                    and log in (entry.log, "all")
                    and rewards in (entry.rewards, "all")
                ]
                print(f"| {policy} | {log} | {rewards} |", counted(chosen), "|")


def counted(entries: list[Judged]) -> str:
    """The cells of a row: counts, and shares of those that were judged."""
    judged = [e for e in entries if e.judgement.verdict != "cannot_be_judged"]
    gains = [(e.judgement.gain, e.truth) for e in judged]
    wrongly = {
        "better": sum(e.judgement.verdict == "better" and e.truth <= 0 for e in judged),
        "worse": sum(e.judgement.verdict == "worse" and e.truth >= 0 for e in judged),
    }
    above = sum(gain.low > truth for gain, truth in gains)
    below = sum(gain.high < truth for gain, truth in gains)
    n = max(len(judged), 1)
    return (
        f"{len(judged)} of {len(entries)} | {1 - (above + below) / n:.1%} | {above / n:.1%} |"
        f" {below / n:.1%} | {wrongly['better']} | {wrongly['worse']}"
    )


def speed(rows: int = 10_000, features: int = 30, rounds: int = 7) -> None:
    """Print the medians of seconds that `/predict` takes for so many rows and five actions, beside boosting of five classes."""
    random = np.random.default_rng(60_000)
    X = random.normal(size=(2000, features)).round(3)
    every = X[:, :5] + np.abs(X[:, 5:10])
    actions = random.integers(5, size=len(X))
    rewards = every[np.arange(len(X)), actions] + random.normal(size=len(X))
    names = [f"x{j}" for j in range(features)]
    inline = {"features": names, "rows": X.tolist()}
    log = {
        "actions": [f"action {a}" for a in actions],
        "rewards": rewards.tolist(),
        "propensities": [0.2] * len(X),
    }
    classes = [f"action {a}" for a in every.argmax(axis=1)]
    cases = random.normal(size=(rows, features)).round(3).tolist()
    matrix = np.eye(5).tolist()
    bodies = {
        "rewards": {"model": "rewards", "instances": cases},
        "boosting": {"model": "boosting", "instances": cases, "benefits": matrix},
    }
    seconds: dict[str, list[float]] = {name: [] for name in bodies}
    with closing(Replica({"access_log": False, "log_level": "error"})) as service:
        service.start()
        for name, kind, data in (
            ("rewards", "rewards", inline | log),
            ("boosting", "gradient_boosting", inline | {"labels": classes}),
        ):
            order = {"model": name, "learner": {"kind": kind}, "data": data}
            waiting = {"Prefer": "wait=60"}
            job = service.client.post("/train", json=order, headers=waiting).json()
            while job["status"] in {"queued", "running"}:
                time.sleep(0.5)
                job = service.client.get(f"/jobs/{job['id']}").json()
            assert job["status"] == "succeeded", job
        for _ in range(rounds + 1):
            for name, body in bodies.items():
                content = json.dumps(body).encode()
                began = time.perf_counter()
                answer = service.client.post("/predict", content=content)
                seconds[name].append(time.perf_counter() - began)
                assert answer.status_code == 200, answer.text
    for name, measured in seconds.items():
        print(f"{name}: {np.median(measured[1:]):.3f} s, best {min(measured):.3f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--peers")
    parser.add_argument("--judge", type=int, default=0)
    parser.add_argument("--uplift", type=int, default=0)
    parser.add_argument(
        "--month", action="store_true", help="rounds of serving and training"
    )
    parser.add_argument("--speed", action="store_true", help="of batches over HTTP")
    chosen = parser.parse_args()
    if chosen.month:
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            month(seed)
    elif chosen.speed:
        speed()
    elif chosen.uplift:
        draw_curves(range(chosen.first, chosen.first + chosen.uplift))
    elif chosen.judge:
        judge_worlds(range(chosen.first, chosen.first + chosen.judge))
    else:
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        compare(seeds, chosen.rows, chosen.peers)
