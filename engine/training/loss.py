"""What training lowers: cross-entropy to the target's distribution over the draft vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from training.batches import Batch
from training.head import Head, shifted

SHARPNESS = 2.0
"""Power to which the target's probabilities are raised: the likeliest token is what counts."""


class CrossEntropy(torch.autograd.Function):
    """Sum of cross-entropies to sparse distributions; the gradient is made on the way, since going
    back through logarithms and sums over the vocabulary costs as much as the matrices do.
    """

    @staticmethod
    def forward(
        context: Any, scores: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """`scores` (r, n); the distribution of a row has `weights` (r, t) at `ids` (r, t)."""
        logprobs = scores.float().log_softmax(-1)
        loss = -(logprobs.gather(-1, ids) * weights).sum()
        gradient = logprobs.exp_().mul_(weights.sum(-1, keepdim=True))
        gradient.scatter_add_(-1, ids, -weights)
        context.save_for_backward(gradient.to(scores.dtype))
        return loss

    @staticmethod
    def backward(context: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = context.saved_tensors
        return gradient * outer[0], None, None


def targets(batch: Batch, draft_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What row p shall predict: draft ids and weights, both (b, n, TOP), of the token at p + 2.

    `draft_ids`: (n_vocab,) draft id of each target id, −1 where it has none. Weights of a row sum
    to at most 1: what lies outside the draft vocabulary is missing.
    """
    ids = draft_ids[batch.top_ids[:, 1:]]
    sharp = (SHARPNESS * batch.top_logprobs[:, 1:]).softmax(-1).nan_to_num()
    weights = sharp.masked_fill(ids < 0, 0)
    ids, weights = (
        functional.pad(ids.clamp(min=0), (0, 0, 0, 1)),
        functional.pad(weights, (0, 0, 0, 1)),
    )
    # Only answers are drafted. Row p predicts the token at p + 2.
    places = torch.arange(weights.shape[1])
    return ids, weights * (places >= batch.answer_starts[:, None] - 2)[..., None]


def chain_loss(
    head: Head, batch: Batch, embeddings: torch.Tensor, draft_ids: torch.Tensor, steps: int
) -> torch.Tensor:
    """Mean over the steps of a draft, each with the text's own tokens and the head's own states.

    `embeddings`: (n_vocab, n_embd), the target's.
    """
    ids, weights = targets(batch, draft_ids)
    following = embeddings[batch.tokens[:, 1:]].float()
    following = functional.pad(following, (0, 0, 0, 1))
    chain, states = head.chain(), head.fuse(batch.features)
    total = torch.zeros(())
    for step in range(steps):
        if step:
            states = shifted(states)
        states = chain.step(following, states)
        rows = weights.sum(-1) > 0
        if step:
            # Half of them say enough: the product with the output matrix is what costs most.
            rows &= torch.rand(rows.shape) < 0.5
        scores = head.logits(states[rows])
        loss = CrossEntropy.apply(scores, ids[rows], weights[rows])
        total = total + loss / weights[rows].sum()
    return total / steps
