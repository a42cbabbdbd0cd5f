"""Threads that look again and again."""

from threading import Event

from app import polling
from app.polling import Poller


def test_neither_a_look_nor_a_log_that_fails_ends_the_thread(monkeypatch):
    looks, twice = [], Event()

    def look():
        looks.append(1)
        if len(looks) > 1:
            twice.set()
        raise RuntimeError("broken")

    def fail(*_arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(polling.logging.getLogger(polling.__name__), "exception", fail)
    poller = Poller("test", look, 0.01)
    poller.start()
    assert twice.wait(10)
    assert poller.alive
    poller.stop()
