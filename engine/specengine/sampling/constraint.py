"""What an answer has to follow, a grammar for instance: which tokens may come next."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specengine.core.cancel import AbortFlag
from specengine.core.tokens import Tokens


class Constraint(Protocol):
    """Decides by the text alone, so that rejected draft tokens leave no trace."""

    def allowed(self, history: Tokens, ids: Tokens) -> NDArray[np.bool_]:
        """Which of `ids` may come after `history`, prompt and answer so far; shape (len(ids),).

        Raises GrammarError where the answer so far already breaks it.
        """
        ...


class StoppableConstraint(Constraint, Protocol):
    """Whose steps may take long."""

    abort: AbortFlag
    """Ends a step that is under way; set from any thread."""
