"""Serves one target model to many sessions at once: the engine's side of a verify server."""
