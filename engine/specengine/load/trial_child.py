"""The process that a trial risks: loads models as a chat does, and answers with a few tokens.

    python -m specengine.load.trial_child MODEL.gguf [HEAD.gguf] [--own-heads|--vocabulary]

The weights are mapped, not copied: the pages that it reads are those that the program then finds
in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

from specengine.core.errors import SpecEngineError
from specengine.llama.model import LlamaModel
from specengine.llama.placement import GpuLayers
from specengine.llama.probe_child import die_quietly
from specengine.llama.vocab import LlamaVocab
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.load.trial import OWN_HEADS, VOCABULARY
from specengine.sampling import SamplingParams

_TEXT = "Hi, \u1ebf \U0001f642\n<|x|> 1"
_DRAFTED, _TOKENS = 2, 4  # so that passes are wide and narrow


def main(arguments: list[str]) -> None:
    die_quietly()
    files = [Path(each) for each in arguments if each not in (OWN_HEADS, VOCABULARY)]
    if VOCABULARY in arguments:
        with LlamaModel(files[0], vocab_only=True) as model:
            _use(model.vocab)
    else:
        _answer(files, own_heads=OWN_HEADS in arguments)


def _use(vocab: LlamaVocab) -> list[int]:
    """Everything that is asked of a vocabulary; a text in its tokens."""
    for token in range(vocab.size):
        vocab.piece(token)
    vocab.tokenize(_TEXT)
    return vocab.tokenize(_TEXT, special=True, bos=True)


def _answer(files: list[Path], *, own_heads: bool) -> None:
    options = LoadOptions(256, use_extra_bufts=False, gpu_layers=GpuLayers(0, 0))
    has_drafter = own_heads or len(files) > 1
    method = "mtp" if own_heads else "model" if has_drafter else "none"
    pair = Pair(*files, method=method, options=options)
    prompt = _use(pair.vocab) or [0]
    greedy = SamplingParams(temperature=0)
    length = _DRAFTED if has_drafter else None
    for _ in pair.answer(prompt, AnswerRequest(greedy, max_tokens=_TOKENS, draft_length=length)):
        pass
    pair.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SpecEngineError as error:
        sys.exit(str(error))
