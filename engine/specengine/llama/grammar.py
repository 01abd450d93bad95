"""A grammar that the answer has to follow, through llama.cpp's own grammar sampler.

Which tokens are allowed is a pure function of the answer's tokens so far. llama.cpp keeps that
function's state in a sampler; samplers are cheap to clone (some microseconds), so one is kept for
each of the last positions, and going back to a position after a rejection costs nothing.

What a step costs is the grammar's choice: where a text can be read in many ways, llama.cpp follows
them all, and their number may double with each letter. No call into llama.cpp can be stopped; so
they are made in a thread of their own, which is left behind when a step takes too long.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from specengine.core.bounded_thread import BoundedThread
from specengine.core.cancel import AbortFlag
from specengine.core.errors import CancelledError, GrammarError
from specengine.core.tokens import Tokens, common_prefix
from specengine.llama import library

# llama.cpp parses grammars recursively and ends the process where the stack does. These limits keep
# well away from that in a thread with a stack of 512 KiB, the smallest default there is (macOS).
MAX_BYTES = 256 * 1024
MAX_DEPTH = 200
MAX_SYMBOLS = 1000

LIMIT_S = 5.0  # for a step; usual ones take a thousandth of that
MAX_LEFT_BEHIND = 2  # threads: each keeps a processor busy

_KEPT_STATES = 64  # of the last positions: more than the longest draft
_CHUNK = 2048  # ids that llama.cpp is asked about in one call

# struct llama_token_data
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])

# In GBNF: a literal, a character class, a comment.
_OPAQUE = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*', re.DOTALL)
_REPETITION = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")


T = TypeVar("T")


class Grammar:
    """A compiled grammar and its states along one answer.

    Not to be shared between threads. The model that `vocab` belongs to must outlive it.
    """

    def __init__(
        self, gbnf: str, vocab: Any, answer_start: int, abort: AbortFlag | None = None
    ) -> None:
        """Compile `gbnf`, whose start symbol is `root`.

        `vocab` is a `llama_vocab` pointer; `answer_start` is the position of the answer's first
        token, the length of the prompt: what is before it is no concern of the grammar. `abort`,
        set by any thread, makes what is under way raise CancelledError.
        Raises GrammarError with llama.cpp's reason, and where that takes longer than LIMIT_S.
        """
        _check(gbnf)
        if BoundedThread.left_behind() >= MAX_LEFT_BEHIND:
            raise GrammarError(
                "grammars of earlier answers still keep llama.cpp busy: try again later, or "
                "restart specchat"
            )
        self._llama = library.load()
        self._start = answer_start
        self.abort = abort or AbortFlag()
        self._tokens: Tokens = np.empty(0, dtype=np.int32)
        self._states: dict[int, Any] = {}  # number of tokens -> sampler
        self._thread = BoundedThread()
        self.close = weakref.finalize(self, _end, self._thread, self._llama, self._states)
        with _captured_stderr() as printed:
            self._within_limit(lambda: self._compile(gbnf, vocab))
        if not self._states:
            self.close()
            # The parser prints its reason, and after it the whole grammar; later checks log theirs.
            found = re.search(r"error parsing grammar: (.*)", "".join(printed))
            reason = found[1].strip() if found else library.last_error()
            raise GrammarError(f"the grammar cannot be used: {reason[:200]}")

    def allowed(self, history: Tokens, ids: Tokens) -> NDArray[np.bool_]:
        """Which of `ids` may come after `history` (prompt and answer so far); shape (len(ids),).

        Raises GrammarError where the answer so far already breaks the grammar, or the step takes
        longer than LIMIT_S.
        """
        answer = history[self._start :].copy()
        return self._within_limit(lambda: self._allowed(self._state(answer), ids))

    def _within_limit(self, work: Callable[[], T]) -> T:
        """Do `work`, the only one that may use the states meanwhile."""
        if not self.close.alive:
            raise GrammarError("the grammar was closed")
        try:
            afterwards = partial(_free_all, self._llama, self._states)
            return self._thread.call(work, LIMIT_S, self.abort, afterwards)
        except (TimeoutError, CancelledError) as error:
            self.close.detach()  # the states are those of the thread that was left
            if isinstance(error, CancelledError):
                raise
            raise GrammarError(
                f"a step of the grammar takes longer than {LIMIT_S:g} s, since it can parse the "
                "text in too many ways: make its alternatives begin differently"
            ) from None

    def _compile(self, gbnf: str, vocab: Any) -> None:
        library.clear_errors()
        if sampler := self._llama.llama_sampler_init_grammar(vocab, gbnf.encode(), b"root"):
            self._states[0] = sampler

    # In the thread that may be left behind

    def _state(self, answer: Tokens) -> Any:
        common = common_prefix(answer, self._tokens)
        for n in [n for n in self._states if n > common]:
            self._llama.llama_sampler_free(self._states.pop(n))
        self._tokens = answer
        for n in range(max(self._states), len(answer)):
            self._states[n + 1] = self._accept(self._states[n], answer[n : n + 1], n)
            if len(self._states) > _KEPT_STATES + 1:  # the first one is never dropped
                oldest = next(n for n in self._states if n > 0)
                self._llama.llama_sampler_free(self._states.pop(oldest))
        return self._states[len(answer)]

    def _accept(self, state: Any, token: Tokens, n: int) -> Any:
        # Accepting a token that is not allowed ends the process.
        if not self._allowed(state, token)[0]:
            raise GrammarError(f"token {token[0]}, number {n} of the answer, violates the grammar")
        following = self._llama.llama_sampler_clone(state)
        self._llama.llama_sampler_accept(following, int(token[0]))
        return following

    def _allowed(self, state: Any, ids: Tokens) -> NDArray[np.bool_]:
        llama = self._llama
        candidates = np.zeros(len(ids), dtype=_CANDIDATE)
        candidates["id"] = ids
        for start in range(0, len(ids), _CHUNK):
            if self._thread.is_left:
                raise CancelledError("cancelled: nobody waits for the grammar any more")
            chunk = candidates[start : start + _CHUNK]
            data = chunk.ctypes.data_as(llama.llama_token_data_p)
            array = llama.llama_token_data_array(data, len(chunk), -1, False)
            llama.llama_sampler_apply(state, ctypes.byref(array))
        mask: NDArray[np.bool_] = candidates["logit"] == 0  # -inf where it is not allowed
        return mask


def _check(gbnf: str) -> None:
    """Refuse what llama.cpp would accept as no grammar, misread, or not survive."""
    if not gbnf.strip():
        raise GrammarError("the grammar is empty")
    if "\0" in gbnf:
        raise GrammarError("the grammar contains a NUL character")
    try:
        size = len(gbnf.encode())
    except UnicodeEncodeError as error:
        raise GrammarError(f"the grammar is not valid Unicode: {error.reason}") from error
    if size > MAX_BYTES:
        raise GrammarError(f"the grammar has {size} bytes, but at most {MAX_BYTES} are allowed")
    bare = _OPAQUE.sub(" ", gbnf)
    symbols = bare.count("::=") + sum(bare.count(c) for c in "(*+?{")
    if symbols > MAX_SYMBOLS:
        raise GrammarError(
            f"the grammar has {symbols} rules and groups, but at most {MAX_SYMBOLS} are allowed"
        )
    depth = deepest = 0
    for bracket in re.findall(r"[()]", bare):
        depth += 1 if bracket == "(" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise GrammarError(
            f"the grammar nests parentheses {deepest} deep, but at most {MAX_DEPTH} are allowed"
        )
    for least, most in _REPETITION.findall(bare):
        if int(most) < int(least):  # llama.cpp would not come back
            raise GrammarError(
                f"the grammar repeats something from {least} to {most} times: the second number "
                "must not be smaller"
            )


@contextmanager
def _captured_stderr() -> Iterator[list[str]]:
    """What C code prints to standard error; held up for the one call that has to be quiet."""
    printed: list[str] = []
    try:
        saved = os.dup(2)
    except OSError:  # a program without a console
        yield printed
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield printed
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            printed.append(file.read().decode("utf-8", "replace"))


def _end(thread: BoundedThread, llama: Any, states: dict[int, Any]) -> None:
    _free_all(llama, states)
    thread.close()


def _free_all(llama: Any, states: dict[int, Any]) -> None:
    for state in states.values():
        llama.llama_sampler_free(state)
    states.clear()
