"""API keys with scopes and rates, and the audit log."""
