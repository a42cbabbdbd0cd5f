"""Which models can select the next feature, known without loading their compiler."""

from __future__ import annotations

from app.errors import Invalid
from app.learners.catalogue import ACQUIRES, KINDS
from app.registry.loaded import Loaded


def check_askable(model: Loaded) -> None:
    """Invalid at /model where its kind cannot be asked feature by feature."""
    kind = model.card.learner.kind
    if model.card.fitted.get("acquire") == ACQUIRES:
        return
    if kind not in KINDS or not KINDS[kind].stepwise:
        able = " or ".join(name for name, other in KINDS.items() if other.stepwise)
        chosen = model.card.fitted.get("chosen")  # of several learners, by one that compares them
        advice = f"train {chosen} itself" if chosen in KINDS and KINDS[chosen].stepwise else f"train {able}"
        raise Invalid.at("/model", f"the learner {kind!r} of {model.name!r} cannot say what to ask next; {advice}")
