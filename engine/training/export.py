"""Writes a trained head as a GGUF that llama.cpp loads beside its target.

python -m training.export TARGET.gguf HEAD.pt HEAD.gguf
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

from training.head import Head
from training.metadata import value
from training.train import load_head

ARCHITECTURE = "eagle3"
_OUTSIDE_THE_BLOCK = ("fc", "enc_output_norm", "output_norm", "output")


def tensor_name(name: str) -> str:
    """The file's name of a parameter: llama.cpp numbers those of the decoder layer."""
    stem = name.removesuffix(".weight")
    if stem not in _OUTSIDE_THE_BLOCK:
        return f"blk.0.{stem}.weight"
    return f"{stem.replace('enc_', 'enc.')}.weight"


def write(
    path: Path,
    head: Head,
    vocabulary: torch.Tensor,
    target: Path,
    layers: tuple[int, int, int],
    quantization: GGMLQuantizationType,
    output_quantization: GGMLQuantizationType,
) -> None:
    """`vocabulary`: the target's id of each draft id. `layers`: whose inputs the head reads."""
    reader = GGUFReader(target)
    shape = head.shape
    writer = GGUFWriter(path, ARCHITECTURE)
    writer.add_name(f"EAGLE-3 head for {value(reader, 'general.name')}")
    writer.add_license("apache-2.0")
    writer.add_block_count(1)
    writer.add_context_length(int(value(reader, "llama.context_length")))
    writer.add_embedding_length(shape.n_embd)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_vocab_size(len(value(reader, "tokenizer.ggml.tokens")))
    writer.add_array(f"{ARCHITECTURE}.target_layers", list(layers))
    writer.add_uint32(f"{ARCHITECTURE}.target_hidden_size", shape.n_embd)
    writer.add_bool(f"{ARCHITECTURE}.norm_before_fc", True)
    writer.add_bool(f"{ARCHITECTURE}.norm_before_residual", False)
    for key, field in reader.fields.items():
        if key.startswith("tokenizer.ggml."):
            outer, *inner = field.types
            writer.add_key_value(key, field.contents(), outer, inner[-1] if inner else None)
    writer.add_tensor("d2t", vocabulary.numpy().astype(np.int64))
    for name, parameter in head.named_parameters():
        values = parameter.detach().float().numpy()
        kind = output_quantization if name == "output.weight" else quantization
        if values.ndim == 1:
            writer.add_tensor(tensor_name(name), values)
        else:
            data = gguf.quantize(values, kind)
            writer.add_tensor(tensor_name(name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("head", type=Path, help="the checkpoint")
    parser.add_argument("file", type=Path, help="to write")
    parser.add_argument("--layers", type=int, nargs=3, default=(2, 15, 27))
    parser.add_argument("--quantization", default="Q8_0")
    parser.add_argument("--output-quantization", default="Q4_1", help="of the output matrix")
    options = parser.parse_args()
    head, vocabulary = load_head(options.head)
    write(
        options.file,
        head,
        vocabulary,
        options.target,
        tuple(options.layers),
        GGMLQuantizationType[options.quantization],
        GGMLQuantizationType[options.output_quantization],
    )
    print(f"{options.file}: {options.file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
