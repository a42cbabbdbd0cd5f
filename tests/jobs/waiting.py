"""Waiting for what other processes do."""

import time

import psutil

# seconds for what takes one or two where the machine has nothing else to do
SOON = 60.0


def eventually(true, seconds=60.0):
    """Wait for a condition and return its value; the bound is there for broken code only."""
    until = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
    return value


def gone(pid):
    """Whether a process has ended; a zombie has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
