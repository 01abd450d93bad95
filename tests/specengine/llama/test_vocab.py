"""What is read of a vocabulary, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from specengine.llama import library
from specengine.llama.model import LlamaModel
from support.tiny_models import VOCABULARY, write_mamba


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


def test_a_file_without_a_vocabulary_is_loaded_and_ends_no_process(tmp_path: Path) -> None:
    with LlamaModel(write_mamba(tmp_path / "mamba.gguf")) as model:
        assert model.vocab.size == VOCABULARY
        assert model.vocab.eog == frozenset()
        assert model.vocab.control == model.vocab.user_defined == {}
