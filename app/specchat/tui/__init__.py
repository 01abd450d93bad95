"""The chat screen, a Textual program over the runtime, the registry and the chat store."""
