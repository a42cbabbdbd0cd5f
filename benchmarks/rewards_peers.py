"""The choices of Vowpal Wabbit and EconML for a log in a file: a part of benchmarks/rewards.py, in an environment of its own."""

import sys

import numpy as np
import vowpalwabbit
from econml.policy import DRPolicyForest


def vowpal_wabbit(log: dict[str, np.ndarray], kind: str, passes: int) -> np.ndarray:
    """Contextual bandits with action features of one name each, by cost = minus reward."""
    A = log["every"].shape[1]
    scale = np.abs(log["X"]).max(axis=0) + 1e-9

    def line(x: np.ndarray, label: str) -> str:
        features = " ".join(f"{j}:{v:.5f}" for j, v in enumerate(x / scale) if v)
        return f"{label} | {features}"

    rewards = (log["rewards"] - log["rewards"].mean()) / (log["rewards"].std() or 1)
    taken = log["chances"][np.arange(len(rewards)), log["actions"]]
    model = vowpalwabbit.Workspace(f"--cb {A} --cb_type {kind} --quiet")
    random = np.random.default_rng(0)
    for _ in range(passes):
        for i in random.permutation(len(rewards)):
            label = f"{log['actions'][i] + 1}:{-rewards[i]:.5f}:{taken[i]:.5f}"
            model.learn(line(log["X"][i], label))
    chosen = [model.predict(line(x, "")) - 1 for x in log["X_new"]]
    model.finish()
    return np.array(chosen)


def policy_forest(log: dict[str, np.ndarray]) -> np.ndarray:
    """EconML's doubly robust forest of policies, with its defaults."""
    model = DRPolicyForest(random_state=0, n_jobs=1)
    model.fit(log["rewards"], log["actions"], X=log["X"])
    return np.asarray(model.predict(log["X_new"])).ravel().astype(int)


log = dict(np.load(sys.argv[1]))
chosen = {
    "vw_mtr": vowpal_wabbit(log, "mtr", 5),
    "vw_dr": vowpal_wabbit(log, "dr", 5),
}
if log["every"].shape[1] <= 5:  # it takes minutes for ten actions
    chosen["econml"] = policy_forest(log)
np.savez(sys.argv[2], **chosen)
