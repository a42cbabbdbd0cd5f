"""Freed blocks are used again, without a page fault for each page of each request; and only so many are kept."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys
import numpy as np
from app import processes
if sys.argv[1] == "kept":
    processes.keep_freed_memory()

def request(blocks, mb=6):
    held = [np.ones(mb << 17) for _ in range(blocks)]  # eight bytes each

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

request(5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    request(5)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
request(50)
print(json.dumps({"faults": faults, "resident": resident()}))
"""


def measured(how: str, **variables: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], env={"PATH": "", "OMP_NUM_THREADS": "1", **variables}, cwd=".",
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_freed_blocks_are_used_again_and_not_all_are_kept():
    kept, usual = measured("kept"), measured("usual")
    assert kept["faults"] * 10 < usual["faults"]
    assert kept["resident"] < usual["resident"] + 80  # of 300 MB that were freed
