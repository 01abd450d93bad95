"""What the runtime asks of whatever answers: models here, or a server of one of three kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.support import Support
from specengine.cache.context import SavedCache
from specengine.cache.costs import PassCosts
from specengine.chat.chat_template import Turn
from specengine.core.events import Chunk, Finished, Progress, Reviewed
from specengine.load.pair import Pair
from specengine.loop.inspection import InspectedRound

Event = Progress | Chunk | Reviewed | Finished | InspectedRound
Emit = Callable[[Event], None]
Prompt = TypeVar("Prompt")


class Backend(ABC, Generic[Prompt]):
    """Whatever answers; made, used and closed in the engine thread.

    `Prompt` is what it takes: token ids, or turns where its server makes the ids. What a back-end
    has nothing of, it leaves as it is here.
    """

    notices: list[str]
    """What a person should know about how it was loaded."""

    support: Support
    """Which options of an answer it honours."""
    n_ctx: int = 0
    """Tokens of context that the target has; 0 if that is not known."""
    placement: str = ""
    """What of the loaded models is on which GPU, in one line; empty if nothing is."""
    gpu_bytes: Mapping[str, int] = MappingProxyType({})
    """What the target and its drafter take of each GPU's memory, by its name."""
    files: Sequence[Path] = ()
    """The files of the models that are loaded here."""
    pair: Pair | None = None
    """Target and drafter, if both are loaded here."""

    @property
    def costs(self) -> Mapping[str, PassCosts]:
        """What passes of those models cost: to be kept, and given back when they are loaded."""
        return {}

    @abstractmethod
    def encode(
        self, turns: Sequence[Turn], options: AnswerOptions
    ) -> tuple[Prompt, tuple[str, ...]]:
        """The prompt, and what a person should know about it. Raises ContextFullError,
        TemplateError.
        """

    @abstractmethod
    def answer(self, prompt: Prompt, options: AnswerOptions, emit: Emit) -> Iterator[Event]:
        """Answer `prompt`; `emit` hears of what happens between the events that are yielded.

        Raises SpecEngineError, RemoteError among them.
        """

    def calibrate(self, options: AnswerOptions, emit: Emit) -> bool:
        """Measure what an answer with `options` has to know of this machine, once per model;
        whether `costs` have changed. Raises CancelledError.
        """
        return False

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        """Token ids of texts that the target wrote before, oldest first, to draft from."""
        return

    def next_prompt(
        self, turns: Sequence[Turn], typed: str, options: AnswerOptions
    ) -> Prompt | None:
        """What the prompt begins with when the question that is being typed after `turns` is asked;
        None if nothing of it can be evaluated ahead or kept. Raises as `encode`.
        """
        return None

    def recall(self, prompt: Prompt, options: AnswerOptions) -> None:
        """Restore what was kept of the chat, if that spares evaluating much of `prompt`."""
        return

    def read_ahead(self, prompt: Prompt, options: AnswerOptions) -> None:
        """Evaluate a `next_prompt`. Raises CancelledError."""
        return

    def copy_to_keep(self, prompt: Prompt, options: AnswerOptions) -> tuple[str, SavedCache] | None:
        """What the cache holds of a `next_prompt`, after the key that it can be restored with; None
        if nothing is worth keeping.
        """
        return None

    async def can_verify(self) -> bool:
        """Whether the target could verify now what somebody else wrote; in any event loop."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Free the models, and end what the server holds."""
