"""A program of the tests: bring the database of the URL up to date, as one of N processes at once or as one that dies.

`starting.py URL together N`: the exit codes of the N are printed. `starting.py URL die N`: killed at the Nth statement.
"""

import multiprocessing
import os
import signal
import sys

from sqlalchemy import event

from app.database import Database
from app.migrations import migrate


def start(url, all_there):
    database = Database(url)
    all_there.wait()
    database.wait(60)
    migrate(database)


def together(url, count):
    context = multiprocessing.get_context("fork")  # nothing runs yet in this program but its one thread
    all_there = context.Barrier(count)
    processes = [context.Process(target=start, args=(url, all_there)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print([process.exitcode for process in processes])


def die(url, at):
    database = Database(url)
    seen = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def _count(_connection, _cursor, statement, *_rest):
        if statement.lstrip().startswith(("CREATE", "INSERT")):
            seen.append(statement)
        if len(seen) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    migrate(database)


if __name__ == "__main__":
    {"together": together, "die": die}[sys.argv[2]](sys.argv[1], int(sys.argv[3]))
