"""Durable jobs: a table, a queue over it, and a worker that runs each job in its own process."""
