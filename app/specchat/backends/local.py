"""Target and drafter on this computer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Backend, Emit, Event
from specchat.backends.kept_states import KeptStates
from specchat.backends.prompts import encode_prompt, next_prompt
from specchat.backends.recall import copy_to_keep, recall
from specchat.backends.support import EVERYTHING, Support
from specengine.cache.context import SavedCache
from specengine.cache.costs import PassCosts
from specengine.chat.chat_template import Turn
from specengine.core.events import Finished, Progress
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
        self._pair = pair
        self._states = states
        self.notices = pair.notices

    @property
    def n_ctx(self) -> int:
        return self._pair.n_ctx

    @property
    def placement(self) -> str:
        return self._pair.placement

    @property
    def gpu_bytes(self) -> dict[str, int]:
        return self._pair.gpu_bytes

    @property
    def files(self) -> list[Path]:
        return self._pair.files

    @property
    def costs(self) -> Mapping[str, PassCosts]:
        return self._pair.costs

    @property
    def pair(self) -> Pair:
        return self._pair

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
        if self._states is not None and options.chat_id is not None:
            recall(self._states, self._pair, prompt, options.chat_id)

    def read_ahead(self, prompt: Sequence[int], options: AnswerOptions) -> None:
        self._pair.read_ahead(prompt, reproducible=options.reproducible)

    def copy_to_keep(
        self, prompt: Sequence[int], options: AnswerOptions
    ) -> tuple[str, SavedCache] | None:
        if self._states is None or options.chat_id is None:
            return None
        saved = copy_to_keep(self._states, self._pair, prompt, options.chat_id)
        return None if saved is None else (self._pair.state_key, saved)

    def close(self) -> None:
        self._pair.close()
