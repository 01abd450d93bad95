"""Errors of the app: each is one line for a person, printed without a traceback, exit code 1."""


class SpecchatError(Exception):
    """Base of the app's errors. `str(error)` says what is wrong, where, and what to do."""
