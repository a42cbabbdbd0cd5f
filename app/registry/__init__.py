"""Published models: sealed folders, an index over them in SQL, and those that are loaded in memory."""
