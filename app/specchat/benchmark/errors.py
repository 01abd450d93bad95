"""What can go wrong in a benchmark."""

from specchat.errors import SpecchatError


class BenchmarkError(SpecchatError):
    """A suite or a side cannot be used; one line that says why and what to do."""
