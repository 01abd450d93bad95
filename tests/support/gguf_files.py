"""Small GGUF files, written by the reference package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

WORDS = ["<s>", "</s>", *(f"word{n}" for n in range(60))]


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    tokens: Sequence[str] = WORDS,
    types: Sequence[int] | None = None,
    bos: int = 0,
    eos: int = 1,
    add_bos: bool = False,
    tokenizer: str = "gpt2",
    n_tensors: int = 3,
    extra: dict[str, int] | None = None,
    template: str = "{{ messages }}",
) -> Path:
    """A model that is complete but too small to load."""
    writer = GGUFWriter(path, architecture)
    writer.add_name("Small Test")
    writer.add_file_type(15)
    writer.add_context_length(2048)
    writer.add_block_count(4)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(128)
    writer.add_head_count(8)
    writer.add_head_count_kv(2)
    writer.add_chat_template(template)
    writer.add_tokenizer_model(tokenizer)
    writer.add_token_list(list(tokens))
    writer.add_token_types(list(types or [TokenType.CONTROL] * 2 + [1] * (len(tokens) - 2)))
    writer.add_token_merges(["w o", "wo r"])
    writer.add_bos_token_id(bos)
    writer.add_eos_token_id(eos)
    writer.add_add_bos_token(add_bos)
    for key, value in (extra or {}).items():
        writer.add_uint32(key, value)
    for n in range(n_tensors):
        writer.add_tensor(f"blk.{n}.weight", np.full((8, 64), n, dtype=np.float16))
    return write_out(writer, path)


def byte_letters(tokenizer: str) -> list[str]:
    """The 256 tokens that stand for single bytes, as a tokenizer of that kind spells them."""
    if tokenizer == "llama":
        return [f"<0x{byte:02X}>" for byte in range(256)]
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(0x100 + n) for n in range(len(others))]


def write_out(writer: GGUFWriter, path: Path) -> Path:
    """Write all that was added, and close the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
