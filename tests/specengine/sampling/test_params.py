import pytest
from pydantic import ValidationError

from specengine.core.errors import SamplingError
from specengine.sampling import SamplingParams


def test_the_defaults_are_those_of_llama_cpp() -> None:
    assert SamplingParams().model_dump() == {
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "typical_p": 1.0,
        "repeat_penalty": 1.0,
        "repeat_last_n": 64,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "logit_bias": {},
        "seed": None,
    }


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("temperature", -0.1, "should be greater than or equal to 0"),
        ("temperature", float("nan"), "should be a finite number"),
        ("temperature", "hot", "should be a valid number"),
        ("top_k", -1, "should be greater than or equal to 0"),
        ("top_p", 1.5, "should be less than or equal to 1"),
        ("min_p", -0.1, "should be greater than or equal to 0"),
        ("typical_p", 2, "should be less than or equal to 1"),
        ("repeat_penalty", 0, "should be greater than or equal to 0.000001"),
        ("repeat_penalty", 1e300, "should be less than or equal to 1000000"),
        ("repeat_last_n", -1, "should be greater than or equal to 0"),
        ("frequency_penalty", float("inf"), "should be a finite number"),
        ("presence_penalty", -1e300, "should be greater than or equal to -1000000"),
        ("seed", -1, "should be greater than or equal to 0"),
        ("seed", 2**64, "should be less than 18446744073709551616"),
        (
            "logit_bias",
            {5: float("nan")},
            "token 5: nan is neither -inf nor a number between ±1e+06",
        ),
        ("logit_bias", {5: 1e39}, "token 5: 1e+39 is neither -inf nor a number between ±1e+06"),
        ("logit_bias", {2**40: 1}, "logit_bias.1099511627776 = 1099511627776: should be less"),
        ("logit_bias", {-1: 1}, "should be greater than or equal to 0"),
        ("top_q", 1, "Extra inputs are not permitted"),
    ],
)
def test_a_setting_out_of_range_is_named_in_one_line(name: str, value: object, reason: str) -> None:
    with pytest.raises(SamplingError) as refused:
        SamplingParams.checked(**{name: value})
    message = str(refused.value)
    assert message.startswith(name)
    assert reason in message
    assert "\n" not in message


def test_token_ids_of_a_bias_may_be_text_as_in_json() -> None:
    assert SamplingParams.checked(logit_bias={"15": -2, "16": float("-inf")}).logit_bias == {
        15: -2,
        16: float("-inf"),
    }


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValidationError):
        SamplingParams().top_k = 3  # type: ignore[misc]
