"""The KV cache that follows the text, and what its passes cost."""
