"""Data sets: read, checked, and kept as Parquet."""
