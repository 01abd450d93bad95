"""What is read of a vocabulary, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from specengine.llama import library
from specengine.llama.model import LlamaModel


def test_no_answer_waits_until_a_whole_vocabulary_has_been_read(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LlamaModel(tiny_model, vocab_only=True) as model:
        for call in ("llama_vocab_get_attr", "llama_vocab_is_eog"):
            monkeypatch.setattr(
                library.load(), call, lambda *_: pytest.fail("asked after the load"), raising=True
            )
        vocab = model.vocab
        assert vocab.eos in vocab.eog
        assert vocab.eog <= set(vocab.control.values())
