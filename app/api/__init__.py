"""HTTP: wire types and routes, no logic."""
