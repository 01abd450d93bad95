"""What a person may set about sampling, with the ranges that llama.cpp gives meaning to."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from specengine.core.errors import SamplingError

Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]

# Far beyond any logit, and far from what float32 arithmetic with logits overflows at.
MOST = 1e6
Penalty = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]


class SamplingParams(BaseModel):
    """How the next token is drawn. The defaults are llama.cpp's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: Finite = Field(0.8, ge=0, description="0 always takes the most probable token")
    top_k: int = Field(40, ge=0, description="keep the k most probable tokens; 0 keeps all")
    top_p: Share = Field(
        0.95, description="keep the fewest tokens that hold this probability mass; 1 is off"
    )
    min_p: Share = Field(
        0.05, description="drop tokens below this share of the most probable; 0 is off"
    )
    typical_p: Share = Field(
        1.0, description="keep the most typical tokens of this probability mass; 1 is off"
    )
    repeat_penalty: Finite = Field(
        1.0, ge=1 / MOST, le=MOST, description="divides the logits of repeated tokens; 1 is off"
    )
    repeat_last_n: int = Field(
        64, ge=0, description="how many of the last tokens are penalised; 0: none"
    )
    frequency_penalty: Penalty = Field(0.0, description="subtracted for every earlier occurrence")
    presence_penalty: Penalty = Field(0.0, description="subtracted once for a token seen before")
    logit_bias: dict[TokenId, float] = Field(
        default_factory=dict, description="added to the logit of a token id; -inf bans it"
    )
    seed: int | None = Field(None, ge=0, lt=2**64, description="the same seed, the same text")

    @field_validator("logit_bias")
    @classmethod
    def _bias_is_a_number(cls, bias: dict[int, float]) -> dict[int, float]:
        for token, value in bias.items():
            if not (-MOST <= value <= MOST or value == -math.inf):
                raise ValueError(
                    f"token {token}: {value} is neither -inf nor a number between ±{MOST:g}"
                )
        return bias

    def to_json(self, *, exclude_unset: bool = False) -> dict[str, Any]:
        """As JSON spells them, which has no infinity."""
        settings = self.model_dump(exclude_unset=exclude_unset)
        if "logit_bias" in settings:
            bias = {t: "-inf" if b == -math.inf else b for t, b in self.logit_bias.items()}
            settings["logit_bias"] = bias
        return settings

    @classmethod
    def checked(cls, **settings: Any) -> Self:
        """The settings, or SamplingError with one line that names the first wrong one."""
        try:
            return cls(**settings)
        except ValidationError as error:
            first = error.errors()[0]
            parts = [str(part) for part in first["loc"] if part != "[key]"]
            name = ".".join(parts) or "sampling settings"
            reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
            shown = repr(first["input"])
            raise SamplingError(f"{name} = {shown[:60]}: {reason}") from error
