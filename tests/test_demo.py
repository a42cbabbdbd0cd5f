"""The service of the tour ends with the tour."""

import os
import subprocess
import sys

import psutil

from tests.conftest import free_port

TOUR = """
from app.commands.demo import service
with service({port}):
    print("began", flush=True)
    import time; time.sleep(60)
"""


def test_a_tour_that_is_ended_ends_its_service(tmp_path):
    tour = subprocess.Popen(
        [sys.executable, "-c", TOUR.format(port=free_port())],
        env=os.environ | {"PAYOFF_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert tour.stdout.readline() == b"began\n"
    services = psutil.Process(tour.pid).children()

    tour.terminate()

    assert tour.wait(60) == 143
    tour.stdout.close()
    assert len(services) == 1
    assert not services[0].is_running()
