"""Where training starts: the target's own last layer, norm and embeddings, as far as they fit."""

from __future__ import annotations

from pathlib import Path

import torch
from gguf import GGUFReader, dequantize

from training.batches import Batch
from training.head import Head, HeadShape
from training.metadata import value


@torch.no_grad()
def new_head(target: Path, draft_ids: torch.Tensor, sample: Batch) -> Head:
    """A head that is near the target's own last layer where the two have the same form.

    `draft_ids`: the target's id of each draft id. `sample` gives the size of the features.
    """
    reader = GGUFReader(target)
    weights = {tensor.name: tensor for tensor in reader.tensors}
    last = value(reader, "llama.block_count") - 1
    n = value(reader, "llama.embedding_length")

    def matrix(name: str) -> torch.Tensor:
        tensor = weights[f"{name}.weight"]
        return torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()

    gate = matrix(f"blk.{last}.ffn_gate")
    head = Head(
        HeadShape(
            n_embd=n,
            n_head=value(reader, "llama.attention.head_count"),
            n_ff=len(gate),
            n_draft_vocab=len(draft_ids),
            rope_base=value(reader, "llama.rope.freq_base"),
            epsilon=value(reader, "llama.attention.layer_norm_rms_epsilon"),
        )
    )
    rows = sample.features[0, 1 : int(sample.lengths[0])].float()  # row 0 is 100 times as large
    relative = rows / rows.square().mean(-1, keepdim=True).sqrt()
    size = relative.square().mean(0).sqrt()  # of each feature, once the norm has seen the row
    head.enc_output_norm.weight.copy_((1 / size).clamp(max=100))
    # States begin as the last of the three features at the norm's scale, …
    scale = float(size[2 * n :].mean())
    head.fc.weight.normal_(std=0.2 / (3 * n) ** 0.5)
    head.fc.weight[:, 2 * n :] += torch.diag(size[2 * n :] / scale)
    # … and what the target's last layer adds to them keeps its proportion.
    row_size = float(rows.square().mean(-1).sqrt().median())
    for name in ("attn_q", "attn_k", "attn_v"):
        linear = getattr(head, name)
        linear.weight.normal_(std=(2 * n) ** -0.5)
    head.attn_output.weight.normal_(std=0.5 * n**-0.5)
    head.ffn_norm.weight.copy_(matrix(f"blk.{last}.ffn_norm"))
    head.ffn_gate.weight.copy_(gate)
    head.ffn_up.weight.copy_(matrix(f"blk.{last}.ffn_up"))
    head.ffn_down.weight.copy_(matrix(f"blk.{last}.ffn_down") / (scale * row_size))
    head.output_norm.weight.copy_(0.3 * matrix("output_norm"))  # less sure than the target
    head.output.weight.copy_(matrix("token_embd")[draft_ids])
    return head
