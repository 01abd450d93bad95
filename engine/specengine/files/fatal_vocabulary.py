"""What of a vocabulary makes llama.cpp end the process instead of refusing the file."""

from __future__ import annotations

from specengine.files.gguf import GGUF
from specengine.files.shown import shown


def fatal_vocabulary(gguf: GGUF) -> str | None:
    """What is wrong, in a few words; None where nothing is."""
    seen: dict[bytes, int] = {}
    for token, text in enumerate(gguf.tokens()):
        # As llama.cpp reads them: up to a zero, and those without text by their number.
        read = text.partition(b"\0")[0] or b"[EMPTY_%d]" % token
        if (first := seen.setdefault(read, token)) != token:
            return f"its tokens {first} and {token} are both {shown(read)}"
    return None
