"""The commands of `payoff`, one module each; `app.cli` imports the one that it runs."""
