"""What is loaded: language models, and for everything else one line that says what it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from specengine.core.errors import ModelFileError
from specengine.llama import library
from specengine.llama.model import LlamaModel
from support.gguf_files import byte_letters, write_gguf, write_out
from support.tiny_models import write_t5


def adapter(writer: gguf.GGUFWriter) -> None:
    writer.add_type(gguf.GGUFType.ADAPTER)


def embedder(writer: gguf.GGUFWriter) -> None:
    writer.add_causal_attention(False)


def nothing(_: gguf.GGUFWriter) -> None:
    pass


def without_layers(writer: gguf.GGUFWriter) -> None:
    writer.add_block_count(0)


def with_a_nan(writer: gguf.GGUFWriter) -> None:
    writer.add_block_count(1)
    writer.add_layer_norm_rms_eps(float("nan"))


@pytest.mark.parametrize(
    ("architecture", "mark", "cause"),
    [
        ("llama", adapter, "is a LoRA adapter"),
        ("clip", nothing, "is the part of a model that reads images or sound"),
        ("nomic-bert", embedder, "an embedding model, which cannot write text"),
        ("llama", without_layers, "is damaged: it has 0 layers"),
        ("llama", with_a_nan, "is damaged: 'llama.attention.layer_norm_rms_epsilon' is nan"),
    ],
)
def test_what_is_no_language_model_is_refused_before_llama_cpp_sees_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    mark: Callable[[gguf.GGUFWriter], None],
    cause: str,
) -> None:
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(64)
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    mark(writer)
    write_out(writer, path)
    monkeypatch.setattr(library, "load", lambda: pytest.fail("llama.cpp was asked"))
    with pytest.raises(ModelFileError, match=cause) as refused:
        LlamaModel(path)
    assert "odd.gguf" in str(refused.value)


def test_an_encoder_and_decoder_is_refused_instead_of_ending_the_process(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFileError, match=r"t5\.gguf is not a model that writes text token by token"
    ):
        LlamaModel(write_t5(tmp_path / "t5.gguf"))


def test_what_llama_cpp_cannot_load_is_named_with_its_first_reason(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot load") as refused:
        LlamaModel(write_gguf(tmp_path / "small.gguf"))
    assert "failed to load model" not in str(refused.value)
    assert "layer_norm_rms_epsilon" in str(refused.value)


def test_what_goes_wrong_while_progress_is_told_is_raised(tiny_model: Path) -> None:
    def tell(fraction: float) -> None:
        raise ZeroDivisionError("told wrongly")

    with pytest.raises(ZeroDivisionError, match="told wrongly"):
        LlamaModel(tiny_model, on_progress=tell)


def test_a_vocabulary_with_two_equal_tokens_is_refused_instead_of_ending_the_process(
    tmp_path: Path,
) -> None:
    path = write_gguf(tmp_path / "twice.gguf", tokens=["a", "b", "a"])
    with pytest.raises(ModelFileError, match="damaged: its tokens 0 and 2 are both 'a'; get it"):
        LlamaModel(path, vocab_only=True)


def test_a_vocabulary_that_begins_texts_with_a_token_it_lacks_is_refused(tmp_path: Path) -> None:
    letters = ["<pad>", "</s>", "<unk>", *byte_letters("llama"), "\u2581", "a"]
    path = tmp_path / "t5.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("t5")
    writer.add_token_list(letters)
    writer.add_token_scores([0.0] * len(letters))
    writer.add_token_types([3, 3, 2, *[6] * 256, 1, 1])
    writer.add_add_bos_token(True)
    with pytest.raises(
        ModelFileError, match="begin or end with a BOS token, but the file does not say which"
    ):
        LlamaModel(write_out(writer, path), vocab_only=True)
