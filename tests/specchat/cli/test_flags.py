"""From flags to what is asked of an answer."""

from specchat.cli.commands.ask import command
from specchat.cli.flags import to_answer_options
from specchat.config.settings import Settings
from specchat.models.registry import Profile
from specengine.sampling import SamplingParams

PROFILE = Profile(name="some", description="", target="tiny", think="off")


def test_a_flag_reaches_the_option_of_its_name() -> None:
    line = "Why? --draft-max 3 --draft-length 2 --no-draft --stop a --stop b --rule block --raw"
    line += (
        " --think low --max-tokens 7 --logprobs 4 --json --reproducible --top-k 5 --logit-bias 1=-2"
    )
    flags = command.make_context("ask", line.split()).params
    options = to_answer_options(Settings(), flags, PROFILE)
    assert options.given == {
        *("draft_max", "draft_length", "drafting", "stop", "rule", "raw", "max_tokens"),
        *("logprobs", "reproducible", "think", "top_k", "logit_bias"),
    }
    assert (options.draft_max, options.draft_length, options.max_tokens) == (3, 2, 7)
    assert (options.stop, options.think) == (("a", "b"), "low")
    assert options.sampling == SamplingParams(top_k=5, logit_bias={1: -2.0})


def test_whether_to_think_a_flag_says_before_the_settings_and_these_before_the_profile() -> None:
    def think(line: str, settings: Settings) -> str | None:
        flags = command.make_context("ask", line.split()).params
        return to_answer_options(settings, flags, PROFILE).think

    assert think("Why?", Settings()) == "off"
    assert think("Why?", Settings(think="on")) == "on"
    assert think("Why? --think high", Settings(think="on")) == "high"
