"""Benefits on a hold-out by the values of a column, against loops over its rows."""

import numpy as np
import pytest

from app.answering.segment_benefits import by_segment
from payoff.decisions.benefit import decide
from payoff.decisions.rule_ranking import LabelledRows

B = np.array([[0.0, -1.0], [-10.0, 5.0]])


def world(n=600, seed=0):
    """Two large segments, of which the second has three times the odds, and a small one; some rows have none."""
    random = np.random.default_rng(seed)
    codes = random.choice([0.0, 1.0, 2.0, np.nan], n, p=[0.45, 0.45, 0.02, 0.08])
    p = random.beta(1, 4, n)
    odds = np.where(codes == 1, 3 * p / (1 - p), p / (1 - p))
    y = (random.random(n) < odds / (1 + odds)).astype(np.intp)
    return codes, np.column_stack((1 - p, p)), y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("by_case", [False, True])
def test_figures_are_those_of_a_loop(weighted, by_case):
    codes, P, y = world()
    n = len(y)
    w = np.random.default_rng(1).integers(1, 4, n) * 1.0 if weighted else np.ones(n)
    M = B * np.random.default_rng(2).integers(1, 5, (n, 1, 1)) if by_case else B
    choice = decide(P, M).choice
    labelled = LabelledRows(y, M, np.ones(2) / 2, row_weights=w)
    lines = by_segment((codes, ["a", "b", "c"]), labelled, P, choice, ["wait", "treat"])
    groups = {line["group"]: line for line in lines}

    assert list(groups) == ["a", "b", "other", None]
    for code, name in ((0, "a"), (1, "b"), (2, "other")):
        rows = np.flatnonzero(codes == code).tolist()
        line = groups[name]
        total = sum(w[i] for i in rows)
        matrices = M if by_case else [B] * n
        promised = sum(
            w[i] * sum(P[i, k] * matrices[i][k][choice[i]] for k in (0, 1))
            for i in rows
        )
        realised = sum(w[i] * matrices[i][y[i]][choice[i]] for i in rows)
        treated = sum(w[i] for i in rows if choice[i] == 1)
        assert line["rows"] == len(rows)
        assert line["promised"] == pytest.approx(promised / total)
        assert line["realised"] == pytest.approx(realised / total)
        gap = line["realised"] - line["promised"]
        assert line["difference"]["mean"] == pytest.approx(gap)
        shares = {share["action"]: share["share"] for share in line["actions"]}
        assert shares["treat"] == pytest.approx(treated / total)
        assert line["calibration"]["stated"] == pytest.approx(
            sum(w[i] * P[i, 1] for i in rows) / total
        )
        assert line["calibration"]["occurred"] == pytest.approx(
            sum(w[i] * y[i] for i in rows) / total
        )
    assert groups["b"]["calibration"]["adjusted_p_value"] < 0.01
    assert groups["b"]["calibration"]["low"] > 0
    assert groups["a"]["calibration"]["adjusted_p_value"] > 0.01
    assert groups["other"]["difference"]["adjusted_p_value"] is None


def test_intervals_of_weighted_rows_cover_what_a_calibrated_model_promises():
    """With weights from 1 to 3 the interval of the difference contains 0 in about 95 of 100 samples."""
    covered = 0
    for seed in range(150):
        random = np.random.default_rng(seed)
        p = random.beta(1, 4, 300)
        P = np.column_stack((1 - p, p))
        y = (random.random(300) < p).astype(np.intp)
        w = np.where(random.random(300) < 0.3, 3.0, 1.0)
        labelled = LabelledRows(y, B, np.ones(2) / 2, row_weights=w)
        segment = np.zeros(300), ["all"]
        (line,) = by_segment(segment, labelled, P, decide(P, B).choice, [0, 1])
        covered += line["difference"]["low"] <= 0 <= line["difference"]["high"]
    assert 135 <= covered <= 149


@pytest.mark.parametrize("n_groups", [10, 200])
def test_rows_of_a_group_depend_on_each_other(n_groups):
    """The log-odds of a group differ by chance: with rows as independent a third seemed wrong."""
    found = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        groups = np.arange(1_000) % n_groups
        p = random.beta(4, 4, n_groups)[groups]
        y = (random.random(1_000) < p).astype(np.intp)
        P = np.full((1_000, 2), 0.5)
        labelled = LabelledRows(y, B, np.ones(2) / 2, groups=groups)
        segment = (np.zeros(1_000), ["a"])
        [line] = by_segment(segment, labelled, P, y * 0 + 1, ["wait", "treat"])
        found += [
            line[part]["p_value"] < 0.05 for part in ("difference", "calibration")
        ]
        low, _ = line["actions"][1]["interval"]
        assert low == pytest.approx(n_groups / (n_groups + 3.84), abs=0.01)
    assert np.mean(found) < 0.11
