"""`specchat serve`: the verify protocol of docs/protocol.md, and an OpenAI-compatible endpoint."""
