"""The head: what llama.cpp's `eagle3` graph computes, in PyTorch.

EAGLE-3 (Li et al. 2025, arXiv 2503.01840). At position p the head sees the target's features of
position p and the token at p + 1, and predicts the token at p + 2. Further draft tokens take the
head's own last state in the place of features that do not exist yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from training.target import rotate, rotations

N_CTX = 2048  # positions that rotations are prepared for


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The head's dimensions. Every query head has a key head of its own: the token reaches the
    state through the values alone, and fewer would narrow that path.
    """

    n_embd: int
    n_head: int
    n_ff: int
    n_draft_vocab: int
    rope_base: float
    epsilon: float

    @property
    def head_size(self) -> int:
        return self.n_embd // self.n_head


class Norm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x.float(), self.weight.shape, self.weight, self._epsilon)


class Head(nn.Module):
    """Attributes are named as the tensors of the GGUF."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        n, wide, epsilon = shape.n_embd, 2 * shape.n_embd, shape.epsilon
        self.enc_output_norm = Norm(3 * n, epsilon)
        self.fc = nn.Linear(3 * n, n, bias=False)
        self.attn_norm = Norm(n, epsilon)
        self.attn_norm_2 = Norm(n, epsilon)
        self.attn_q = nn.Linear(wide, n, bias=False)
        self.attn_k = nn.Linear(wide, n, bias=False)
        self.attn_v = nn.Linear(wide, n, bias=False)
        self.attn_output = nn.Linear(n, n, bias=False)
        self.ffn_norm = Norm(n, epsilon)
        self.ffn_gate = nn.Linear(n, shape.n_ff, bias=False)
        self.ffn_up = nn.Linear(n, shape.n_ff, bias=False)
        self.ffn_down = nn.Linear(shape.n_ff, n, bias=False)
        self.output_norm = Norm(n, epsilon)
        self.output = nn.Linear(n, shape.n_draft_vocab, bias=False)
        cos, sin = rotations(N_CTX, shape.head_size, shape.rope_base)
        self.register_buffer("_cos", cos, persistent=False)
        self.register_buffer("_sin", sin, persistent=False)

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """States of the first step, (batch, n, n_embd), from features (batch, n, 3 · n_embd)."""
        return self.fc(self.enc_output_norm(features))

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Over the draft vocabulary."""
        return self.output(self.output_norm(states))

    def chain(self) -> Chain:
        return Chain(self)


class Chain:
    """Draft steps from every position of a text at once.

    Row p of step j belongs to the draft that began at p − j: it attends to the first step's keys
    up to there, and to those of its own draft after that. Rows p < j belong to no draft.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    def step(self, embeddings: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """The next step's states; both arguments and the result are (batch, n, n_embd).

        `embeddings[:, p]` is of the token at p + 1; `states[:, p]` is `fuse`'s row p for the first
        step, later the last step's row p − 1 (`shifted`).
        """
        head = self._head
        joined = torch.cat((head.attn_norm(embeddings), head.attn_norm_2(states)), dim=-1)
        hidden = states + head.attn_output(self._attend(joined))
        normed = head.ffn_norm(hidden)
        return hidden + head.ffn_down(functional.silu(head.ffn_gate(normed)) * head.ffn_up(normed))

    def _attend(self, joined: torch.Tensor) -> torch.Tensor:
        head, n = self._head, joined.shape[1]
        cos, sin = head._cos[:n], head._sin[:n]

        def heads(linear: nn.Linear) -> torch.Tensor:
            return linear(joined).unflatten(-1, (head.shape.n_head, head.shape.head_size))

        values = heads(head.attn_v)  # its type is that of all products, autocast or not
        queries = rotate(heads(head.attn_q), cos, sin).to(values.dtype).transpose(1, 2)
        self._keys.append(rotate(heads(head.attn_k), cos, sin).to(values.dtype).transpose(1, 2))
        self._values.append(values.transpose(1, 2))
        if len(self._keys) == 1:
            mixed = functional.scaled_dot_product_attention(
                queries, self._keys[0], self._values[0], is_causal=True
            )
        else:
            mixed = self._attend_to_drafts(queries)
        return mixed.transpose(1, 2).flatten(-2)

    def _attend_to_drafts(self, queries: torch.Tensor) -> torch.Tensor:
        n, step = queries.shape[2], len(self._keys) - 1
        scale = queries.shape[-1] ** -0.5
        text = queries @ self._keys[0].transpose(-1, -2) * scale
        # Rows before `step` see no text; -inf throughout would leave them nothing to normalize.
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1 - step)
        text = text.float().masked_fill(hidden, -1e9)
        ages = [step - i for i in range(1, step + 1)]
        drafts = [
            (queries * shifted(keys, age, dim=2)).sum(-1, keepdim=True).float() * scale
            for keys, age in zip(self._keys[1:], ages, strict=True)
        ]
        weights = torch.cat((text, *drafts), dim=-1).softmax(-1).to(queries.dtype)
        mixed = weights[..., :n] @ self._values[0]
        for i, age in enumerate(ages):
            column = weights[..., n + i, None]
            mixed = mixed + column * shifted(self._values[1 + i], age, dim=2)
        return mixed


def shifted(rows: torch.Tensor, by: int = 1, dim: int = 1) -> torch.Tensor:
    """Row p becomes row p + `by`; the first rows are zeros."""
    if by == 0:
        return rows
    zeros = torch.zeros_like(rows.narrow(dim, 0, by))
    return torch.cat((zeros, rows.narrow(dim, 0, rows.shape[dim] - by)), dim)
