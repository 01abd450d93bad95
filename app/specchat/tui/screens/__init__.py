"""The chat, and the dialogs that lie over it."""
