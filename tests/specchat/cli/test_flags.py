"""From flags to what is asked of an answer."""

from specchat.cli.commands.ask import command
from specchat.cli.flags import sampling_flags, to_answer_options
from specengine.sampling import SamplingParams


def test_a_flag_reaches_the_option_of_its_name() -> None:
    line = "Why? --draft-max 3 --draft-length 2 --no-draft --stop a --stop b --rule block --raw"
    line += " --max-tokens 7 --logprobs 4 --json --reproducible --top-k 5 --logit-bias 1=-2"
    flags = command.make_context("ask", line.split()).params
    sampling = SamplingParams(**{k: v for k, v in sampling_flags(flags).items() if v is not None})
    options = to_answer_options(flags, sampling)
    assert options.given == {
        *("draft_max", "draft_length", "drafting", "stop", "rule", "raw", "max_tokens"),
        *("logprobs", "reproducible", "top_k", "logit_bias"),
    }
    assert (options.draft_max, options.draft_length, options.max_tokens) == (3, 2, 7)
    assert options.stop == ("a", "b")
    assert options.sampling == SamplingParams(top_k=5, logit_bias={1: -2.0})
