"""The version, in one place: hatchling reads it here, `specchat --version` prints it."""

__version__ = "0.1.0"
