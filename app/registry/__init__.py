"""Published models: files that are complete in themselves, and an index over them."""
