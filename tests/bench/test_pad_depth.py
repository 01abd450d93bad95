"""The depth-padded copy of a model: as deep as it says, and the very same function."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from pad_depth import PaddingError, pad_depth
from specengine.core.events import Finished
from specengine.files.gguf import read_gguf
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams
from support.gguf_files import write_out


@pytest.fixture(scope="module")
def padded(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("padded")
    return pad_depth(tiny_model, 2, folder / f"{tiny_model.stem}-padded-x2.gguf")


def test_it_is_twice_as_deep_says_so_and_keeps_the_tokenizer(
    padded: Path, tiny_model: Path
) -> None:
    before, after = read_gguf(tiny_model), read_gguf(padded)
    assert after.n_layer == 2 * before.n_layer
    assert after.name == f"{before.name} (depth-padded x2)"
    assert after.metadata["tokenizer.chat_template"] == before.metadata["tokenizer.chat_template"]
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"):
        assert after.fingerprint(key) == before.fingerprint(key)


def test_copies_are_copies_but_for_their_output_which_is_zero(
    padded: Path, tiny_model: Path
) -> None:
    before = {t.name: t.data for t in GGUFReader(tiny_model).tensors}
    after = {t.name: t.data for t in GGUFReader(padded).tensors}
    for part in ("attn_q.weight", "ffn_up.weight", "attn_norm.weight"):
        for layer in (6, 7):
            np.testing.assert_array_equal(after[f"blk.{layer}.{part}"], before[f"blk.3.{part}"])
    for part in ("attn_output.weight", "ffn_down.weight"):
        np.testing.assert_array_equal(after[f"blk.6.{part}"], before[f"blk.3.{part}"])
        assert before[f"blk.3.{part}"].any()
        assert not after[f"blk.7.{part}"].any()


@pytest.mark.slow
def test_it_is_the_same_function(padded: Path, tiny_model: Path) -> None:
    logits, texts = [], []
    for file in (tiny_model, padded):
        pair = Pair(file, method="none", options=LoadOptions(n_ctx=256))
        prompt = pair.vocab.tokenize("The three primary colours are red,")
        *_, finished = pair.answer(
            prompt, AnswerRequest(SamplingParams(temperature=0), max_tokens=16, reproducible=True)
        )
        assert isinstance(finished, Finished)
        texts.append(finished.text)
        pair.forget()
        logits.append(pair._target.context.logits(prompt, last=4).copy())
        pair.close()
    assert texts[0] == texts[1]
    assert texts[0].strip()
    np.testing.assert_array_equal(logits[0], logits[1])


def write_model(path: Path, parts: list[str], alignment: int | None = None) -> Path:
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_array("llama.attention.head_count_kv", [3, 5])
    writer.add_array("llama.rope.scaling", [1, 2, 3])
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for layer in (0, 1):
        for part in parts:
            writer.add_tensor(f"blk.{layer}.{part}", np.full((3, 32), layer + 1, np.float16))
    return write_out(writer, path)


def test_what_is_said_of_each_layer_is_said_of_its_copies(tmp_path: Path) -> None:
    model = write_model(
        tmp_path / "m.gguf", ["attn_output.weight", "ffn_down_exps.weight"], alignment=128
    )
    padded = pad_depth(model, 3)
    assert padded.name == "m-padded-x3.gguf"
    gguf = read_gguf(padded)
    assert gguf.numbers("llama.attention.head_count_kv").tolist() == [3, 3, 3, 5, 5, 5]
    assert gguf.numbers("llama.rope.scaling").tolist() == [1, 2, 3]
    assert gguf.name == "llama (depth-padded x3)"
    data = {t.name: t.data for t in GGUFReader(padded).tensors}
    means = [float(data[f"blk.{n}.ffn_down_exps.weight"].mean()) for n in range(6)]
    assert means == [1, 0, 0, 2, 0, 0]


@pytest.mark.parametrize(
    "parts", [["ffn_down.weight"], ["attn_output.weight", "ffn_down.weight", "ssm_out.weight"]]
)
def test_layers_of_another_kind_are_refused(tmp_path: Path, parts: list[str]) -> None:
    model = write_model(tmp_path / "m.gguf", parts)
    with pytest.raises(PaddingError, match="layer 0"):
        pad_depth(model, 2)


def test_padding_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PaddingError, match="not deeper"):
        pad_depth(tmp_path / "m.gguf", 1)


def test_the_model_is_not_written_over(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.gguf", ["attn_output.weight", "ffn_down.weight"])
    before = model.read_bytes()
    with pytest.raises(PaddingError, match="take the place"):
        pad_depth(model, 2, tmp_path / ".." / tmp_path.name / "m.gguf")
    assert model.read_bytes() == before
