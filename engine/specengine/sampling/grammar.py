"""What an answer has to follow: a grammar, or a JSON schema.

llguidance (Microsoft, MIT) parses the answer byte by byte and tells which tokens may come next. Its
work for one token is bounded, and going back after a rejection costs nothing worth the name.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import any_to_lark
from numpy.typing import NDArray

from specengine.core.errors import GrammarError
from specengine.core.tokens import Tokens, common_prefix
from specengine.core.vocab import Vocab
from specengine.sampling.json_schema import schema_as_lark

MAX_BYTES = 256 * 1024
_REASON = 200  # characters of a library's reason, in an error
_OPTIONS_OF_LARK = re.compile(r"^\s*%llguidance\s*\{[^}]*\}", re.MULTILINE)
_STRUCTURAL = re.compile(rb"<\|.*\|>", re.DOTALL)

_vocabularies: weakref.WeakKeyDictionary[Vocab, LLTokenizer] = weakref.WeakKeyDictionary()


class Grammar:
    """A compiled grammar and where it stands in one answer. Not to be shared between threads."""

    def __init__(self, text: str, vocab: Vocab, answer_start: int) -> None:
        """Compile `text`: GBNF with the start symbol `root`, Lark with the start symbol `start`, or
        a JSON schema, which begins with a brace.

        `answer_start` is the position of the answer's first token, the length of the prompt: what
        is before it is no concern of the grammar. The first grammar for a vocabulary takes as long
        as reading it does, about a second for 262 thousand tokens.
        Raises GrammarError with the reason where the grammar cannot be used.
        """
        self._size = vocab.size
        self._ends = np.array(sorted(vocab.eog), dtype=np.int32)
        self._start = answer_start
        self._answer: Tokens = np.empty(0, dtype=np.int32)
        self._matcher = LLMatcher(_tokenizer(vocab), _compiled(text), log_level=0)
        self._check("the grammar cannot be used")

    def allowed(self, history: Tokens) -> NDArray[np.bool_]:
        """Which tokens may come after `history`, prompt and answer so far; shape (n_vocab,).

        Raises GrammarError where the answer so far breaks the grammar, or can be read in too many
        ways.
        """
        answer = history[self._start :]
        ends = np.flatnonzero(np.isin(answer, self._ends))
        n = int(ends[0]) if len(ends) else len(answer)
        self._follow(answer[:n])
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._check("the grammar cannot be followed further")
        mask = np.unpackbits(bits, count=self._size, bitorder="little").view(np.bool_)
        if n < len(answer):  # drafted: what comes after the end of the text is never used
            if not mask[answer[n]]:
                raise self._violated(answer, n)
            mask[:] = False
            mask[self._ends] = True
        return mask

    def _follow(self, answer: Tokens) -> None:
        common = common_prefix(answer, self._answer)
        self._matcher.rollback(len(self._answer) - common)
        self._answer = answer[:common].copy()
        new = answer[common:].tolist()
        taken = self._matcher.try_consume_tokens(new)
        self._answer = answer[: common + taken].copy()
        self._check("the grammar cannot be followed further")
        if taken < len(new):
            raise self._violated(answer, common + taken)

    def _violated(self, answer: Tokens, n: int) -> GrammarError:
        return GrammarError(f"token {answer[n]}, number {n} of the answer, violates the grammar")

    def _check(self, what: str) -> None:
        if self._matcher.is_error():
            raise GrammarError(f"{what}: {_reason(self._matcher.get_error())}")


class _Tokens:
    """A vocabulary as llguidance reads it, which copies it. It never asks for an encoding."""

    bos_token_id = None

    def __init__(self, vocab: Vocab) -> None:
        self.eos_token_id = min(vocab.eog)
        self.special_token_ids: Sequence[int] = ()
        # A grammar is about text: control tokens have none, and those that act as control tokens
        # must not be written inside of a string.
        self.tokens = [vocab.piece(token) for token in range(vocab.size)]
        for text, token in vocab.user_defined.items():
            if _STRUCTURAL.fullmatch(text.encode()):
                self.tokens[token] = b""

    def __call__(self, text: bytes) -> list[int]:
        return []


def _tokenizer(vocab: Vocab) -> LLTokenizer:
    known = _vocabularies.get(vocab)
    if known is None:
        wrapper = TokenizerWrapper(_Tokens(vocab))
        known = _vocabularies[vocab] = LLTokenizer(wrapper, eos_token=sorted(vocab.eog))
    return known


def _compiled(text: str) -> str:
    """As llguidance takes it. Raises GrammarError for what is none of the three notations."""
    if not text.strip():
        raise GrammarError("the grammar is empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise GrammarError(f"the grammar is not valid Unicode: {error.reason}") from error
    if size > MAX_BYTES:
        raise GrammarError(f"the grammar has {size} bytes, but at most {MAX_BYTES} are allowed")
    if text.lstrip().startswith("{"):
        lark = schema_as_lark(text)
    else:
        lark = _OPTIONS_OF_LARK.sub("", _as_lark(text))
    # Else a text without a choice might be written with one encoding only: not the target's words.
    return LLMatcher.grammar_from_lark('%llguidance {"no_forcing": true}\n' + lark)


def _as_lark(text: str) -> str:
    try:
        return any_to_lark(text)
    except RecursionError:
        raise GrammarError("the grammar is nested too deeply") from None
    except Exception as error:  # the converter has no class for what it refuses
        raise GrammarError(f"the grammar cannot be used: {_reason(str(error))}") from error


def _reason(text: str) -> str:
    """The first line of a library's message, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else "no reason given")[:_REASON]
