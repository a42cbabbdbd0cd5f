"""What recorded decisions earned: the report, replays, and data sets of them."""
