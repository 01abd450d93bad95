"""What training lowers: cross-entropy to the target's distribution over the draft vocabulary."""

from __future__ import annotations

import torch
from torch.nn import functional

from training.batches import Batch
from training.head import Head, shifted

SHARPNESS = 2.0
"""Power to which the target's probabilities are raised: the likeliest token is what counts."""


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
    # Row 0 is the first token's, whose features are a hundred times as large as all others.
    weights[:, 0] = 0
    return ids, weights


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
            weights = weights.clone()
            weights[:, step] = 0  # of the draft that would have begun at row 0
        states = chain.step(following, states)
        rows = weights.sum(-1) > 0
        scores = head.logits(states[rows]).float()
        chosen = scores.gather(-1, ids[rows]) - scores.logsumexp(-1, keepdim=True)
        total = total - (weights[rows] * chosen).sum() / weights[rows].sum()
    return total / steps
