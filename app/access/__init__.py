"""Who may do what, how often, and who did what: API keys, rates, and the audit log."""
