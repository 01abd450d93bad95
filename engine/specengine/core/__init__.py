"""The words that every room speaks: tokens, drafts, drafters, events. Needs NumPy alone."""
