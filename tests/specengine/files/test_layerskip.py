"""The first layers as a model: written whole, and computing what those layers compute."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from specengine.core.cancel import AbortFlag
from specengine.core.errors import ModelFileError
from specengine.files.gguf import read_gguf
from specengine.files.layerskip import write_first_layers
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from support.gguf_files import write_gguf, write_out
from support.tiny_models import write_lfm2

pytestmark = pytest.mark.kernels

N_VOCAB, N_EMBD, N_FF, N_LAYER = 40, 32, 64, 4


def write_llama(path: Path, kind: Type, *, tied: bool, n_active: int) -> Path:
    """A random model whose layers from `n_active` on add nothing to what passes through them."""
    rng = np.random.default_rng(3)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    writer.add_block_count(N_LAYER)
    writer.add_context_length(64)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(2)
    writer.add_head_count_kv([1] * N_LAYER)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(N_VOCAB)
    writer.add_tokenizer_model("none")

    def matrix(name: str, *shape: int, scale: float = 0.4) -> None:
        values = (scale * rng.standard_normal(shape)).astype(np.float32)
        data = gguf.quants.quantize(values, kind)
        writer.add_tensor(name, data, raw_shape=data.shape, raw_dtype=kind)

    matrix("token_embd.weight", N_VOCAB, N_EMBD, scale=1)
    if not tied:
        matrix("output.weight", N_VOCAB, N_EMBD)
    writer.add_tensor("output_norm.weight", np.full(N_EMBD, 1.5, dtype=np.float32))
    for i in range(N_LAYER):
        scale = 0.4 if i < n_active else 0.0
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{norm}.weight", np.ones(N_EMBD, dtype=np.float32))
        matrix(f"blk.{i}.attn_q.weight", N_EMBD, N_EMBD)
        matrix(f"blk.{i}.attn_k.weight", 16, N_EMBD)
        matrix(f"blk.{i}.attn_v.weight", 16, N_EMBD)
        matrix(f"blk.{i}.attn_output.weight", N_EMBD, N_EMBD, scale=scale)
        matrix(f"blk.{i}.ffn_gate.weight", N_FF, N_EMBD)
        matrix(f"blk.{i}.ffn_up.weight", N_FF, N_EMBD)
        matrix(f"blk.{i}.ffn_down.weight", N_EMBD, N_FF, scale=scale)
    return write_out(writer, path)


def logits(path: Path) -> np.ndarray:
    abort = AbortFlag()
    with (
        LlamaModel(path, use_extra_bufts=False) as model,
        LlamaKVCache(model, n_ctx=64, n_threads=1, abort=abort) as cache,
    ):
        tokens = np.arange(1, 9, dtype=np.int32)
        return cache.decode(tokens, 0, slice(0, 8)).copy()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_0])
def test_it_computes_what_the_first_layers_compute(tmp_path: Path, kind: Type, tied: bool) -> None:
    whole = write_llama(tmp_path / "whole.gguf", kind, tied=tied, n_active=2)
    expected = logits(whole)
    write_first_layers(whole, 2, tmp_path / "cut.gguf")
    assert (logits(tmp_path / "cut.gguf") == expected).all()
    write_first_layers(whole, 1, tmp_path / "less.gguf")
    assert (logits(tmp_path / "less.gguf") != expected).any()


def test_the_weights_are_copied_and_the_metadata_says_how_many_layers(tmp_path: Path) -> None:
    whole = write_llama(tmp_path / "whole.gguf", Type.Q4_0, tied=False, n_active=4)
    cut = write_first_layers(whole, 3, tmp_path / "cut.gguf")
    assert (cut.n_layer, cut.name) == (3, "Tiny, first 3 layers")
    assert cut.per_layer("attention.head_count_kv", 0) == [1, 1, 1]
    before = {tensor.name: tensor.data for tensor in gguf.GGUFReader(whole).tensors}
    after = {tensor.name: tensor.data for tensor in gguf.GGUFReader(cut.path).tensors}
    assert before.keys() - after.keys() == {n for n in before if n.startswith("blk.3.")}
    assert all((after[name] == before[name]).all() for name in after)
    assert not (tmp_path / "cut.gguf.part").exists()


def test_a_real_model_keeps_its_vocabulary_and_template(tiny_model: Path, tmp_path: Path) -> None:
    whole, cut = read_gguf(tiny_model), write_first_layers(tiny_model, 2, tmp_path / "cut.gguf")
    changed = {key for key, value in whole.metadata.items() if cut.metadata.get(key) != value}
    assert changed == {"general.name", "llama.block_count"}
    keys = ("tokens", "token_type", "merges")
    assert all(
        cut.fingerprint(f"tokenizer.ggml.{key}") == whole.fingerprint(f"tokenizer.ggml.{key}")
        for key in keys
    )


@pytest.mark.parametrize("n_layers", [0, 4, 5])
def test_a_cut_outside_the_model_is_refused(tmp_path: Path, n_layers: int) -> None:
    whole = write_llama(tmp_path / "whole.gguf", Type.F16, tied=True, n_active=4)
    with pytest.raises(ModelFileError, match=r"whole\.gguf has 4 layers: keep from 1 to 3"):
        write_first_layers(whole, n_layers, tmp_path / "cut.gguf")
    assert not (tmp_path / "cut.gguf").exists()


def test_a_file_without_layers_is_refused(tmp_path: Path) -> None:
    odd = write_gguf(tmp_path / "odd.gguf", n_tensors=2)  # says 4 layers, has 2
    with pytest.raises(
        ModelFileError, match=r"odd\.gguf cannot be shortened: it is not one stack of layers"
    ):
        write_first_layers(odd, 1, tmp_path / "cut.gguf")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    whole = write_llama(tmp_path / "whole.gguf", Type.F16, tied=True, n_active=4)
    with pytest.raises(ModelFileError, match=r"cut\.gguf cannot be written: "):
        write_first_layers(whole, 2, whole / "cut.gguf")


def test_layers_of_two_kinds_stay_in_step(tmp_path: Path) -> None:
    cut = write_first_layers(write_lfm2(tmp_path / "whole.gguf"), 2, tmp_path / "cut.gguf")
    assert cut.per_layer("attention.head_count_kv", 9) == [0, 1]
    result: Any = logits(tmp_path / "cut.gguf")
    assert np.isfinite(result).all()


def test_weights_of_a_type_that_is_not_known_are_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", n_tensors=4)
    data = path.read_bytes()
    at = data.index(b"blk.2.weight") + len(b"blk.2.weight") + 4 + 2 * 8
    path.write_bytes(data[:at] + (1536).to_bytes(4, "little") + data[at + 4 :])
    with pytest.raises(ModelFileError, match="is of type 1536, which specchat does not know"):
        write_first_layers(path, 1, tmp_path / "part.gguf")
