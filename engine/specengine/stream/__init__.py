"""A target elsewhere, and drafts made here: ahead of its stream, or scored by an engine."""
