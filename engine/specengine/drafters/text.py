"""A draft model of another vocabulary writes text, which is encoded anew for the target.

String-level exact match (SLEM, Timor et al. 2025). The draft is the draft model's most probable
text, hence deterministic: its distribution is a point mass, whatever the target's sampling.
"""

from __future__ import annotations

from specengine.cache.context import Context
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.drafter import Pace
from specengine.core.tokens import TokenBuffer, Tokens
from specengine.core.vocab import Vocab
from specengine.drafters.model import ModelBased
from specengine.drafters.translation import Translation, split_complete, tokenize_part

_MOST_STEPS = 2  # of the draft model for each token of the target
_USUAL_STEPS = 1.25, 20.0  # until some were counted: steps a token, and tokens that this counts for


class TextDrafter(ModelBased):
    """Follows the text through a `Translation`, and answers in the target's own encoding."""

    def __init__(
        self,
        name: str,
        target: Vocab,
        draft: Vocab,
        context: Context,
        translation: Translation,
        abort: AbortFlag | None = None,
    ) -> None:
        super().__init__(name, context, translation.follow, abort)
        self._target, self._draft = target, draft
        usual, weight = _USUAL_STEPS
        self._steps, self._tokens = usual * weight, weight

    @property
    def token_s(self) -> float:
        return self._step_s * self._steps / self._tokens

    def _proposal(self, prefix: Tokens, k: int, pace: Pace | None) -> Draft:
        read = TokenBuffer(self.read(prefix))
        data = b""
        tokens: list[int] = []
        for _ in range(min(_MOST_STEPS * k, self.context.n_ctx - len(read))):
            self._steps += 1
            token = int(self.context.logits(read.view())[0].argmax())
            read.append(token)
            data += self._draft.piece(token)
            tokens = tokenize_part(self._target, split_complete(data)[0])
            ended = token in self._draft.eog
            if ended and self._target.eos is not None:
                tokens.append(self._target.eos)
            if ended or len(tokens) >= k:
                break
        self._tokens += len(tokens)
        return Draft(tokens[:k], [None] * min(k, len(tokens)))
