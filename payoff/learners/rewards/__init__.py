"""Learning which action to take from the rewards of those that were taken."""
