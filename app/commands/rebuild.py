"""`payoff rebuild`: publish the stored models that the database does not know."""

import argparse

from app.opening import prepare_stores, starting
from app.settings import Settings


def run(_chosen: argparse.Namespace) -> int:
    with starting():
        count = prepare_stores(Settings()).registry.rebuild()
    print(f"{count} versions published")
    return 0
