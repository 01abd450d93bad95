"""The composition root: files become pairs of a target and its drafter."""
