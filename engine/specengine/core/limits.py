"""Limits that hold in every room."""

MAX_DRAFT = 16
"""Most draft tokens of a round."""

MAX_LOGPROBS = 100
"""Alternatives that are reported with a token's log-probability, at most."""
