"""Draw the curves L_k of a small real example.

    .venv/bin/python benchmarks/retrieval_curves.py [docs/images/retrieval_curves.svg]

The items are the first hundred test rows of Letter Recognition; relevant is the letter B; the probabilities are those
of scikit-learn's logistic regression on the 16,000 training rows.

The smallest work: `.venv/bin/python benchmarks/retrieval_curves.py /dev/null`
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from retrieval_quality import DATA, logistic, problems

from app.api.charts import Axis, document, frame, tag, text, through
from app.retrieval.losses import Loss, Terms
from app.retrieval.selection import select
from tests.reference.losses import am, f_beta, g_mean, g_tp_pr, jaccard

IMAGE = Path(__file__).resolve().parents[1] / "docs" / "images" / "retrieval_curves.svg"
ITEMS, LETTER = 100, 1
LOSSES = {
    "Jaccard": jaccard(), "F1": f_beta(), "G-TP/PR": g_tp_pr(), "F2": f_beta(2), "G-Mean": g_mean(), "AM": am(),
}  # fmt: skip
COLOURS = {  # on white, and on black
    "Jaccard": ("#8250df", "#b794f6"), "F1": ("#0a58b5", "#6cb0ff"), "G-TP/PR": ("#1a7f37", "#4ac26b"),
    "F2": ("#b35900", "#f0a04b"), "G-Mean": ("#bf3989", "#f778ba"), "AM": ("#5b6470", "#9aa4b0"),
}  # fmt: skip
WIDTH, HEIGHT, RIGHT = 860.0, 480.0, 640.0


def example() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (100,) of the letter B, and whether it is."""
    letter = next(problems(DATA, 1))
    train, test = letter.splits[0]
    y = letter.tasks[:, LETTER]
    rows = test[:ITEMS]
    return logistic(letter.X[train], y[train], letter.X[rows]), y[rows]


def styles() -> str:
    light, dark = (
        "".join(
            f".{name(loss)}{{stroke:{pair[tone]}}}.{name(loss)}-text{{fill:{pair[tone]}}}"
            for loss, pair in COLOURS.items()
        )
        for tone in (0, 1)
    )
    shape = "path{stroke-width:1.8}"
    return tag("style", f"{shape}{light}@media (prefers-color-scheme:dark){{{dark}}}")


def name(loss: str) -> str:
    return loss.lower().replace("/", "-")


def drawn(p: np.ndarray, label: str, loss: Loss, x: Axis, y: Axis, height: float) -> str:
    """A curve, a dot at its least value, and its row of the key."""
    found = select(p, Terms(loss, curve=True))
    assert found.curve is not None
    words = f"{label}: k = {found.k}, loss {found.expected_loss:.3f}"
    return (
        through(x, y, list(enumerate(found.curve)), name(label), steps=True)
        + tag("circle", cx=x.at(found.k), cy=y.at(found.expected_loss), r=4, cls=f"{name(label)}-text")
        + text(RIGHT + 24, height, words, cls=f"{name(label)}-text")
    )


def main() -> None:
    p, truth = example()
    x, y = Axis(0, ITEMS, 56, RIGHT), Axis(0, 1, 420, 90)
    parts = [
        text(24, 26, "Expected loss of retrieving the k most likely items", cls="heading"),
        text(24, 46, f"{ITEMS} test rows of Letter Recognition, {p.sum():.1f} expected to be the letter B "
             f"({truth.sum()} are); no probability reaches 1/2", cls="soft"),
        styles(), frame(x, y, "k: how many are retrieved", "expected loss L_k"),
    ]  # fmt: skip
    assert p.max() < 0.5
    parts += [drawn(p, label, loss, x, y, 90 + 22 * row) for row, (label, loss) in enumerate(LOSSES.items())]
    best = "; ".join(f"{label} k = {select(p, Terms(loss)).k}" for label, loss in LOSSES.items())
    picture = document(WIDTH, HEIGHT, "".join(parts), "Expected losses by size of set", f"The best sets: {best}.")
    Path(sys.argv[1] if len(sys.argv) > 1 else IMAGE).write_text(picture + "\n", encoding="utf-8")
    print(best)


if __name__ == "__main__":
    main()
