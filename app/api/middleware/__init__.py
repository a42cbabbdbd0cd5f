"""What surrounds every route: keys, limits, time-outs, logs and metrics."""
