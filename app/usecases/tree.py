"""Looking into a published tree of classifiers."""

from __future__ import annotations

from app.acquisition.outline import Stop, outline
from app.acquisition.prices import parse_prices
from app.acquisition.tree_of_classifiers import TreeOfClassifiers
from app.errors import Conflict
from app.registry.loaded import Loaded
from app.usecases.ports import Ports


def outlined(ports: Ports, name: str, version: int) -> tuple[Loaded, tuple[Stop, ...]]:
    """The version and its nodes at the prices of training; NotFound, or Conflict where it is another kind of model."""
    kind = ports.registry.card(name, version).learner.kind
    if kind != "cost_tree":
        raise Conflict(f"version {version} of {name!r} is a {kind}, and has no tree of classifiers to show")
    model = ports.registry.load(f"{name}:{version}")
    tree: TreeOfClassifiers = model.estimator.model_
    return model, outline(tree, parse_prices(model.card.feature_costs, model.schema.names))
