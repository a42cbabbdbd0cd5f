"""Only for the fork server, which imports this before any numerical library.

They then start no threads there: forking a process that has threads can leave a lock held for ever.
Each job sets its own number after the fork.
"""

from app.jobs.processes import cap_threads

cap_threads(1)
