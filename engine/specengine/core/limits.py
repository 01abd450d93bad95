"""Limits that hold in every room."""

MAX_DRAFT = 16
"""Draft tokens of a round, at most."""

MAX_LOGPROBS = 100
"""Alternatives that are reported with a token's log-probability, at most."""
