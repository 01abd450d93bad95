"""Target and drafter on this computer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Backend, Emit, Event
from specchat.backends.kept_states import WORTHWHILE, KeptStates
from specchat.backends.prompts import encode_prompt, next_prompt
from specchat.backends.support import EVERYTHING, Support
from specengine.cache.context import SavedCache
from specengine.cache.costs import PassCosts
from specengine.chat.chat_template import Turn
from specengine.core.events import Finished, Progress
from specengine.core.tokens import as_tokens, common_prefix
from specengine.load.pair import Pair

_MEASURING = Progress("measure", 0, 0, "this machine")
_NOT_REPRODUCIBLE = (
    "this build of llama.cpp rounds by the width of a pass whatever is done about it: "
    "--reproducible texts may differ at near-ties"
)


class LocalBackend(Backend[Sequence[int]]):
    """A pair of models, and what is kept of its caches."""

    support = Support(EVERYTHING)

    def __init__(self, pair: Pair, states: KeptStates | None) -> None:
        """`states`: where the caches of chats are kept."""
        self.pair = self._pair = pair
        self.notices = pair.notices
        self.n_ctx = pair.n_ctx
        self.placement = pair.placement
        self.gpu_bytes = pair.gpu_bytes
        self.files = pair.files
        self._states = states

    @property
    def costs(self) -> Mapping[str, PassCosts]:
        return self._pair.costs

    def encode(
        self, turns: Sequence[Turn], options: AnswerOptions
    ) -> tuple[Sequence[int], tuple[str, ...]]:
        return encode_prompt(self._pair, turns, options)

    def answer(self, prompt: Sequence[int], options: AnswerOptions, emit: Emit) -> Iterator[Event]:
        rounded = options.reproducible and self._pair.width_step is None
        notices = (_NOT_REPRODUCIBLE,) if rounded else ()
        for event in self._pair.answer(
            prompt,
            options,
            on_prompt=lambda done, total: emit(Progress("prompt", done, total, "reading")),
            on_round=emit if options.inspect else None,
        ):
            if isinstance(event, Finished):
                event = replace(event, notices=(*notices, *event.notices))
            yield event

    def calibrate(self, options: AnswerOptions, emit: Emit) -> bool:
        measured = False
        if options.drafting and options.draft_length is None:
            emit(_MEASURING)  # the controller has to know what it promises
            measured = self._pair.calibrate()
        if options.reproducible:
            emit(_MEASURING)
            _ = self._pair.width_step  # now: measuring it empties the cache
        return measured

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        self._pair.remember(texts)

    def next_prompt(
        self, turns: Sequence[Turn], typed: str, options: AnswerOptions
    ) -> Sequence[int]:
        return next_prompt(self._pair, turns, typed, options)

    def recall(self, prompt: Sequence[int], options: AnswerOptions) -> None:
        states, chat_id, pair = self._states, options.chat_id, self._pair
        if states is None or chat_id is None:
            return
        with suppress(OSError):  # the model's file is gone
            held, kept = self._held_and_kept(states, prompt, chat_id)
            worthwhile = kept - held >= WORTHWHILE
            if worthwhile and (saved := states.load(chat_id, pair.state_key)) is not None:
                pair.context.restore(saved)

    def read_ahead(self, prompt: Sequence[int], options: AnswerOptions) -> None:
        self._pair.read_ahead(prompt, reproducible=options.reproducible)

    def copy_to_keep(
        self, prompt: Sequence[int], options: AnswerOptions
    ) -> tuple[str, SavedCache] | None:
        states, chat_id, pair = self._states, options.chat_id, self._pair
        if states is None or chat_id is None:
            return None
        with suppress(OSError):
            held, kept = self._held_and_kept(states, prompt, chat_id)
            worthwhile = held - kept >= WORTHWHILE
            if worthwhile and (saved := pair.context.save(as_tokens(prompt))) is not None:
                return pair.state_key, saved
        return None

    def close(self) -> None:
        self._pair.close()

    def _held_and_kept(
        self, states: KeptStates, prompt: Sequence[int], chat_id: int
    ) -> tuple[int, int]:
        """How many tokens of `prompt` the cache has now, and how many are kept of the chat."""
        tokens = as_tokens(prompt)
        kept = states.tokens(chat_id, self._pair.state_key)
        held = common_prefix(tokens, self._pair.context.tokens)
        return held, 0 if kept is None else common_prefix(tokens, kept)
