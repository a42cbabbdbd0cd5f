"""`payoff rebuild`: publish the stored models that the database does not know."""

import argparse

from app.settings import Settings
from app.stores import make_ports, starting


def run(_chosen: argparse.Namespace) -> int:
    with starting():
        found = make_ports(Settings()).registry.rebuild()
    print(f"{found} versions published")
    return 0
