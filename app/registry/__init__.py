"""Published models: sealed folders, an index over them in SQL, and models in memory."""
