"""What `payoff …` does, one module for each command; `app.cli` imports the one that is asked for."""
