"""How many tokens a pass a head gives on texts that are there already, the target not run."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.nn import functional

from training.batches import Batch
from training.head import Head, shifted


@torch.inference_mode()
def matches(
    head: Head, batch: Batch, embeddings: torch.Tensor, vocabulary: torch.Tensor, k: int
) -> torch.Tensor:
    """Draft tokens that are the text's, of the draft that begins at each row: (b, n) from 0 to k.

    The drafts are greedy. `vocabulary`: the target's id of each draft id.
    """
    chain, states = head.chain(), head.fuse(batch.features)
    n = batch.tokens.shape[1]
    wanted = functional.pad(batch.tokens[:, 2:], (0, 2), value=-1)
    tokens = functional.pad(batch.tokens[:, 1:], (0, 1))
    accepted = torch.ones(batch.tokens.shape, dtype=torch.bool)
    count = torch.zeros(batch.tokens.shape, dtype=torch.long)
    for step in range(k):
        states = chain.step(embeddings[tokens].float(), states)
        drafted = vocabulary[head.logits(states).argmax(-1)]
        # Row p of this step belongs to the draft that began at row p − step.
        right = (drafted == wanted)[:, step:]
        accepted = accepted[:, : n - step] & right
        count[:, : n - step] += accepted
        states, tokens = shifted(states), shifted(drafted)
    return count


def tokens_per_pass(counts: Iterable[list[int]]) -> float:
    """Over answers: each a list of how many draft tokens are accepted after each of its tokens."""
    tokens = passes = 0
    for answer in counts:
        at = 0
        while at < len(answer):
            at += answer[at] + 1
            passes += 1
        tokens += len(answer)
    return tokens / passes if passes else 0.0


def greedy_answers(
    head: Head,
    batches: Iterable[Batch],
    embeddings: torch.Tensor,
    vocabulary: torch.Tensor,
    k: int = 4,
) -> list[list[int]]:
    """`matches` of the rows that draft greedy answers; sampled answers are left out."""
    found = []
    for batch in batches:
        counts = matches(head, batch, embeddings, vocabulary, k)
        for i, (start, n) in enumerate(zip(batch.answer_starts, batch.lengths, strict=True)):
            likeliest = batch.top_ids[i, start - 1 : n - 1, 0]
            if torch.equal(likeliest, batch.tokens[i, start:n]):
                # The draft from row p follows the token at p + 1, the answer's first or a later.
                found.append(counts[i, start - 1 : n - 2].tolist())
    return found
