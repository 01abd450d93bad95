"""Is the drafted text the target's own? What `specchat verify` runs."""
