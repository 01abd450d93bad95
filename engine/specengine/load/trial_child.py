"""The process that a trial risks: renders the chat template that a model brings, loads models as a
chat does, and answers with a few tokens.

    python -m specengine.load.trial_child MODEL.gguf [HEAD.gguf] [--own-heads|--vocabulary]

It prints a line when it begins with the template, and one when it begins with the models. The
weights are mapped, not copied: the pages that it reads are those that the program then finds in
memory.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from specengine.chat.template_trial import exceeded_limit
from specengine.core.errors import SpecEngineError
from specengine.files.gguf import read_gguf
from specengine.llama.model import LlamaModel
from specengine.llama.placement import GpuLayers
from specengine.llama.probe_child import die_quietly
from specengine.llama.vocab import LlamaVocab
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.load.trial import MODELS, OWN_HEADS, TEMPLATE, VOCABULARY
from specengine.sampling import SamplingParams

if sys.platform != "win32":
    import resource

_TEXT = "Hi, \u1ebf \U0001f642\n<|x|> 1"
_DRAFTED, _TOKENS = 2, 4  # so that passes are wide and narrow
_TEMPLATE_S = 20.0  # an honest one takes a tenth of a second
_TEMPLATE_BYTES = 2 * 2**30


def main(arguments: list[str]) -> None:
    die_quietly()
    files = [Path(each) for each in arguments if each not in (OWN_HEADS, VOCABULARY)]
    template = read_gguf(files[0]).chat_template
    if template:
        print(TEMPLATE, flush=True)
        try_template(template)
    print(MODELS, flush=True)
    if VOCABULARY in arguments:
        with LlamaModel(files[0], vocab_only=True) as model:
            _use(model.vocab)
    else:
        _answer(files, own_heads=OWN_HEADS in arguments)


def try_template(source: str) -> None:
    """Ends the process where the template takes too much, the reason the last line on stderr."""
    print(f"the chat template takes longer than {_TEMPLATE_S:g} s", file=sys.stderr, flush=True)
    with Path(os.devnull).open("w") as nowhere, _memory_limit(_TEMPLATE_BYTES):
        # Ends it even amid a call into C.
        faulthandler.dump_traceback_later(_TEMPLATE_S, exit=True, file=nowhere)
        try:
            reason = exceeded_limit(source)
        except MemoryError:
            reason = f"the chat template needs more than {_TEMPLATE_BYTES >> 20} MiB"
        faulthandler.cancel_dump_traceback_later()
    if reason is not None:
        sys.exit(reason)


@contextmanager
def _memory_limit(more: int) -> Iterator[None]:
    """This process gets so many bytes more, where the system can limit that."""
    if sys.platform == "win32":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(ValueError, OSError):
        now = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (now + more, before[1]))
    yield
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, before)


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
