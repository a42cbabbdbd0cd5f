"""What recorded outcomes prove: intervals, sequences, bounds, drift. Arrays in, numbers out."""
