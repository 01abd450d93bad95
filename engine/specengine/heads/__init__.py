"""Heads: drafters that go on from the target's own hidden states."""
