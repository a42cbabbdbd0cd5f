"""`payoff demo`: a tour of the service with real data."""
