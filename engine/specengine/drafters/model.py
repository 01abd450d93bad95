"""A smaller model as drafter (Leviathan et al. 2022)."""

from __future__ import annotations

from specengine.cancel import AbortFlag
from specengine.context import Context
from specengine.controller import Offer
from specengine.draft import Draft
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms
from specengine.sequence import TokenBuffer, Tokens, common_prefix
from specengine.vocab import Vocab


class ModelDrafter:
    """Samples each draft token from the draft model, after the same transforms as the target's.

    Its cache follows the text like the target's: accepted draft tokens are already evaluated.
    """

    def __init__(
        self,
        name: str,
        vocab: Vocab,
        context: Context,
        transforms: Transforms,
        rule: AcceptanceRule,
        n_shared: int,
        abort: AbortFlag | None = None,
    ) -> None:
        """`n_shared`: ids below this exist in both vocabularies; others are never drafted.

        `abort` stops passes of `context`.
        """
        self.name = name
        self.abort = abort
        self.notice: str | None = None
        self.context = context
        self._vocab = vocab
        self._transforms = transforms
        self._rule = rule
        self._n_shared = n_shared

    @property
    def draft_s(self) -> float:
        return self.context.decode_s

    def offer(self, prefix: Tokens) -> Offer | None:
        available = self.context.n_ctx - len(prefix)
        self.notice = self._why_not(prefix, available)
        if self.notice is not None:
            return None
        missing = len(prefix) - common_prefix(self.context.tokens, prefix)
        # One token behind is the ordinary state: the first draft pass evaluates it.
        start_s = self.context.costs.prompt_seconds(missing - 1) if missing > 2 else 0.0
        token_s = self.context.costs.seconds(1)
        return Offer(self.name, available, prior=0.7, start_s=start_s, token_s=token_s)

    def propose(self, prefix: Tokens, k: int) -> Draft:
        draft = Draft()
        tokens = TokenBuffer(prefix)
        for _ in range(k):
            row = self.context.logits(tokens.view())[0, : self._n_shared]
            q = self._transforms.distribution(row, tokens.view())
            token = self._rule.draw(q, position=len(tokens))
            # One id left means that nothing was drawn: a point mass, cheaper to say as None.
            draft.append(token, q if len(q.ids) > 1 else None)
            if token in self._vocab.eog:
                break
            tokens.append(token)
        return draft

    def _why_not(self, prefix: Tokens, available: int) -> str | None:
        if available <= 0:
            return (
                f"the draft model {self.name} has a context of {self.context.n_ctx} tokens, "
                "which this chat has outgrown: going on without drafts"
            )
        if int(prefix.max()) >= self.context.n_vocab:
            return f"the text has tokens that the draft model {self.name} does not know"
        return None
