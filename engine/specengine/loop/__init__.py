"""One answer of a local target: rounds of drafting and verifying."""
