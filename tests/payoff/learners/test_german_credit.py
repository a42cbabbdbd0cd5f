"""The promise about German credit, kept by the benchmark script itself."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DATA = PROJECT / ".." / "shared" / "data" / "german_credit.csv.gz"


@pytest.mark.skipif(
    not DATA.exists(), reason="the German credit data are not beside the project"
)
def test_expected_benefit_costs_at_most_056_per_case():
    """The script prints all four ways."""
    script = PROJECT / "benchmarks" / "decisions.py"
    done = subprocess.run(
        [sys.executable, script, "--credit"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    costs = [
        float(line.split("(")[0].split()[-1]) for line in done.stdout.splitlines()[1:]
    ]
    assert len(costs) == 4
    assert costs[0] <= 0.56 < costs[3] < costs[2]
    assert costs[1:] == pytest.approx([0.5463, 0.8643, 0.7], abs=2e-3)
