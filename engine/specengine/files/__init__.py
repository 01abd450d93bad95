"""GGUF files: what their headers say, which of them may work together, and how they are cut."""
