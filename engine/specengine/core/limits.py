"""Limits that hold in every room."""

MAX_DRAFT = 16
"""Draft tokens of a round, at most."""
