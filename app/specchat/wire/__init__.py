"""HTTP between client and server: addresses, keys, messages, events. Imports neither side."""
