"""Which set of items has the smallest expected loss. Pure."""
