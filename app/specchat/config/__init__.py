"""Settings, folders, the log: what every room may ask for."""
