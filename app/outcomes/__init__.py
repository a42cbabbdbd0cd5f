"""Decisions as they were made, and what became of them.

A decision is stored before it is answered. Recent ones are rows of the database; whole days are
sealed into Parquet files. Both are read as `Cases`.
"""
