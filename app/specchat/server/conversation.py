"""From a conversation, in whatever protocol, to what the model is asked."""

from __future__ import annotations

from collections.abc import Sequence

from specchat.server.bodies import check_ids
from specchat.server.refusal import Refusal
from specchat.server.request_options import Options
from specchat.server.service import Service
from specengine.chat.chat_template import Turn, encode_chat
from specengine.core.errors import TemplateError
from specengine.sampling import SamplingParams


def encode_turns(service: Service, turns: Sequence[Turn]) -> list[int]:
    """The prompt for the answer to `turns`, behind the served profile's system message where they
    have none. A last message of the assistant is the beginning of its answer.

    Raises Refusal, 400, where the model's chat template does.
    """
    profile, model, asked, begun = service.profile, service.model, list(turns), ""
    system = None if profile is None else profile.system
    if system is not None and all(turn.role != "system" for turn in asked):
        asked.insert(0, Turn("system", system))
    if asked and asked[-1].role == "assistant" and not asked[-1].calls:
        begun = asked.pop().text
    try:
        return encode_chat(model.chat_template, asked, model.vocab, begun=begun)
    except TemplateError as error:
        raise Refusal(400, "template", str(error), param="messages") from None


def checked_sampling(service: Service, wanted: Options) -> SamplingParams:
    """With a seed. Raises Refusal, 400, for a bias on what is no token."""
    sampling = wanted.sampling(service.profile)
    check_ids(list(sampling.logit_bias), service.model.vocab.size, "logit_bias")
    return sampling
