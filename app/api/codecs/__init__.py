"""Formats of requests and answers: a module for each family, and what they have in common."""
