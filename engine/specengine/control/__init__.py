"""Whether to draft now, with which drafter, and how far: by what is measured on this machine."""
