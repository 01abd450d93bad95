"""A smaller model as drafter (Leviathan et al. 2022)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from specengine.cache.context import Context, Logits
from specengine.cache.costs import PROMPT
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.drafter import Offer, Pace
from specengine.core.tokens import TokenBuffer, Tokens, common_prefix
from specengine.drafters.bridge import Bridge
from specengine.drafters.drawing import draw
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms

PRIOR = 0.7


class ModelBased(ABC):
    """What drafters with a model of their own have in common: its context, and what it costs."""

    def __init__(
        self,
        name: str,
        context: Context,
        read: Callable[[Tokens], Tokens],
        abort: AbortFlag | None = None,
    ) -> None:
        """`read` gives the draft model's ids for a text. `abort` stops passes of `context`."""
        self.name = self._model = name
        self.abort = abort
        self.notice: str | None = None
        self.draft_s = 0.0
        self.context = context
        self.read = read

    def offer(self, prefix: Tokens) -> Offer | None:
        read = self.read(prefix)
        self.notice = self._why_not(read)
        if self.notice is not None:
            return None
        missing = len(read) - common_prefix(self.context.tokens, read)
        return self._offer(max(1, missing), self.context.n_ctx - len(read))

    def propose(self, prefix: Tokens, k: int, pace: Pace | None = None) -> Draft:
        before = self.context.decode_s
        try:
            return self._proposal(prefix, k, pace)
        finally:
            self.draft_s += self.context.decode_s - before

    @property
    def token_s(self) -> float:
        """Seconds for a draft token."""
        return self._step_s

    @property
    def _step_s(self) -> float:
        """Seconds of a pass over one token, which nobody pads further."""
        return self.context.costs.seconds(self.context.padded(1))

    def _offer(self, missing: int, room: int) -> Offer:
        """`missing`: tokens of the text without a row, at least 1; `room`: what fits after it."""
        catch_up_s, token_s = self._catch_up_s(missing), self.token_s
        if missing >= PROMPT or not catch_up_s:
            return Offer(self.name, room, PRIOR, catch_up_s, token_s)
        # The gap that accepted drafts leave comes again and again: each round pays for its own.
        return Offer(self.name, room, PRIOR, together_s=lambda k: catch_up_s + k * token_s)

    def _catch_up_s(self, missing: int) -> float:
        """What the first draft pass takes longer, since it reads all that is missing."""
        width = self.context.padded(missing)
        if width == self.context.padded(1):
            return 0.0
        return max(0.0, self.context.costs.prompt_seconds(width) - self._step_s)

    @abstractmethod
    def _proposal(self, prefix: Tokens, k: int, pace: Pace | None) -> Draft:
        """`pace` is one only where the offer was paced."""

    def _why_not(self, read: Tokens) -> str | None:
        if len(read) >= self.context.n_ctx:
            return (
                f"this chat is longer than the context of the draft model {self._model} "
                f"({self.context.n_ctx} tokens): continuing without its drafts"
            )
        if int(read.max()) >= self.context.n_vocab:
            return (
                "the text contains tokens that are not in the vocabulary of the draft model "
                f"{self._model}"
            )
        return None


class ModelDrafter(ModelBased):
    """Samples each draft token from the draft model, after the same transforms as the target's.

    Its cache follows the text like the target's: accepted draft tokens are already evaluated.
    """

    def __init__(
        self,
        name: str,
        bridge: Bridge,
        context: Context,
        transforms: Transforms,
        rule: AcceptanceRule,
        abort: AbortFlag | None = None,
    ) -> None:
        super().__init__(name, context, bridge.read, abort)
        self._bridge = bridge
        self._transforms = transforms
        self._rule = rule

    def _offer(self, missing: int, room: int) -> Offer:
        return replace(super()._offer(missing, room), paced=True)

    def _proposal(self, prefix: Tokens, k: int, pace: Pace | None) -> Draft:
        read = TokenBuffer(self.read(prefix))

        def row(drafted: Sequence[int]) -> Logits:
            if drafted:
                read.append(self._bridge.to_draft(drafted[-1]))
            return self._bridge.row(self.context.logits(read.view())[0])

        return draw(row, k, prefix, self._transforms, self._rule, self._bridge.ends, pace)
