"""The language of requests: each part reads and checks itself."""
