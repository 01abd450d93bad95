"""What is wrong with what a person or a program wrote, in one line."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, field_validator, model_validator

from specchat.errors import first_fault


class Pair(BaseModel):
    numbers: list[int] = []
    even: int = 2

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("write an even number")
        return value

    @model_validator(mode="after")
    def _is_a_pair(self) -> Pair:
        if len(self.numbers) > 2:
            raise ValueError("there are too many")
        return self


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"numbers": [1, "secret"]}, "numbers.1: Input should be a valid integer"),
        ({"even": 3}, "even: write an even number"),
        ({"numbers": [1, 2, 3]}, "there are too many"),
    ],
)
def test_the_first_fault_is_told_with_its_place_and_without_the_value(
    content: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Pair.model_validate(content)
    assert first_fault(caught.value).startswith(fault)
    assert "secret" not in first_fault(caught.value)
