"""Keeps what a person wrote from becoming structure: control tokens, and those that act as such.

Encoding matches user-defined tokens wherever they stand, asked to or not, and there are models
whose turns begin and end with them (gpt-oss, Command R). So their texts are broken, too, where they
look like a marker or the template writes them; other user-defined tokens are plain text (runs of
spaces, tags of HTML).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from specengine.core.vocab import Vocab

BREAK = "\udc00"
"""Where a text is cut before it is tokenized: a lone surrogate, which no cleaned text holds."""

_MARKER = re.compile("<[|｜].*|.*[|｜]>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Guard:
    """What of a vocabulary no text may become, under one template.

    A template may look for a token in answers, to leave out what was thought before it: in answers
    such tokens stay whole, and are believed.
    """

    typed: re.Pattern[str]
    """Matches the first character of each text that is broken in what a person wrote."""
    answered: re.Pattern[str]
    """The same in answers."""
    distrusted: frozenset[int]
    """Ids that are not believed where an answer's own ids are given: a file may hold any."""

    def break_typed(self, text: str) -> str:
        """`text` with a break inside each token's text."""
        return self.typed.sub(rf"\g<0>{BREAK}", text)

    def break_answered(self, text: str) -> str:
        """As `break_typed`, of an answer."""
        return self.answered.sub(rf"\g<0>{BREAK}", text)


def guard_for(template: str, vocab: Vocab) -> Guard:
    """The guard of a conversation that `template` renders for `vocab`."""
    return _guard(template, tuple(vocab.control.items()), tuple(vocab.user_defined.items()))


_Tokens = tuple[tuple[str, int], ...]


@functools.lru_cache(maxsize=4)
def _guard(template: str, control: _Tokens, user_defined: _Tokens) -> Guard:
    structure = {text: token for text, token in user_defined if _is_structure(text, template)}
    typed = structure | dict(control)
    searched = {text for text in structure if _is_searched(text, template)} - dict(control).keys()
    answered = {text: token for text, token in typed.items() if text not in searched}
    return Guard(_first_letters(typed), _first_letters(answered), frozenset(answered.values()))


def _is_structure(text: str, template: str) -> bool:
    if _MARKER.fullmatch(text):
        return True
    return text in template and any(not (c.isalnum() or c.isspace()) for c in text)


def _is_searched(text: str, template: str) -> bool:
    """Whether the template asks where in a message `text` stands."""
    quoted = f"['\"]{re.escape(text)}['\"]"
    return bool(re.search(rf"\w\(\s*{quoted}|{quoted}\s+(?:not\s+)?in\b", template))


def _first_letters(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches the first character of each of `texts`, of overlapping ones too."""
    escaped = sorted(re.escape(text) for text in texts if len(text) > 1)
    return re.compile(f"(?=(?:{'|'.join(escaped)})).", re.DOTALL) if escaped else re.compile("(?!)")
