"""Numbers that servers send. What cannot be right is refused where an answer is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=0, lt=2**31)]
TokenId = Count
DraftLength = Annotated[int, Field(ge=0, le=1024)]
Integer64 = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, lt=1e6)]
Logprob = Annotated[float, Field(le=0.01)]
"""Of 16-bit servers a little above 0; never NaN."""
