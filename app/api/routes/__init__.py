"""Routes and the documents that they take and return; no logic."""
