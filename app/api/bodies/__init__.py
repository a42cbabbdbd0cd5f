"""Formats of request and response bodies."""
