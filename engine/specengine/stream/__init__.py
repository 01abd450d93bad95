"""A remote target and local drafts: sent ahead of its stream, or scored by an inference engine."""
