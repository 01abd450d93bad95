"""The terminal app: command line, screens, storage and settings around `specengine`."""
