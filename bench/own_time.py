"""What specchat itself takes for a token and for a round, outside llama.cpp.

    python bench/own_time.py
    python bench/own_time.py --profile greedy-plain 152000     # where the time goes

The target is made here: one layer of width 64, whose next token is nearly certain, with the
vocabulary of Qwen (152 thousand) or of Gemma (262 thousand). It computes nothing worth speaking of,
so what is left is sampling, the acceptance rule, lookup, text and the loop. Printed are the medians
of several answers in milliseconds: for a token without drafts, and for a round of four draft
tokens that lookup found. Results: bench/results/README.md.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

import numpy as np
from gguf import GGUFWriter, TokenType

from specengine.core.events import Finished
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

VOCABULARIES = (152_000, 262_000)
WIDTH = 64
CYCLE = 40  # tokens, after which the text begins again
SHARPNESS = 0.35  # the next token has nearly all probability, the others still have to be looked at
DRAFTED = 4
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0),
    "sampled": SamplingParams(temperature=0.8, top_k=40, top_p=0.95, seed=1),
}


def write_model(path: Path, n_vocab: int) -> None:
    """A language model of one layer that goes round in its first `CYCLE` words."""
    rng = np.random.default_rng(1)
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_block_count(1)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(n_vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    bytes_ = [chr(0x100 + n) for n in range(256)]
    writer.add_token_list(["<s>", "</s>", *bytes_, *(f"word{n}" for n in range(n_vocab - 258))])
    writer.add_token_types([TokenType.CONTROL] * 2 + [TokenType.NORMAL] * (n_vocab - 2))
    writer.add_token_merges(["w o", "wo r"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    embeddings = rng.standard_normal((n_vocab, WIDTH)).astype(np.float32)
    before = np.arange(n_vocab)
    before[258 : 258 + CYCLE] = 258 + (np.arange(CYCLE) - 1) % CYCLE
    nothing = np.zeros((WIDTH, WIDTH), dtype=np.float32)
    writer.add_tensor("token_embd.weight", embeddings)
    writer.add_tensor("output.weight", (embeddings[before] * SHARPNESS).astype(np.float16))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", nothing)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def answer(pair: Pair, sampling: SamplingParams, *, drafting: bool, tokens: int) -> Finished:
    prompt = [258 + n % CYCLE for n in range(3 * CYCLE)]
    request = AnswerRequest(
        sampling,
        max_tokens=tokens,
        drafting=drafting,
        draft_length=DRAFTED if drafting else None,
    )
    *_, finished = pair.answer(prompt, request)
    assert isinstance(finished, Finished)
    return finished


def own_ms(finished: Finished, *, drafting: bool) -> float:
    """Milliseconds a token without drafts, or a round with them."""
    stats = finished.stats
    assert stats.overhead_s is not None
    passes = stats.rounds if drafting else stats.completion_tokens - 1
    if drafting:
        assert stats.drafted > 0.9 * DRAFTED * stats.rounds
    return 1000 * stats.overhead_s / passes


def figures(pair: Pair, options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    for name, sampling in SAMPLINGS.items():
        for way in ("plain", "drafted"):
            drafting = way == "drafted"
            found = [
                own_ms(
                    answer(pair, sampling, drafting=drafting, tokens=options.tokens),
                    drafting=drafting,
                )
                for _ in range(options.repeats)
            ]
            yield f"{name}-{way}", median(found)


def profile(pair: Pair, what: str, tokens: int) -> None:
    sampling, way = what.split("-")
    profiler = cProfile.Profile()
    answer(pair, SAMPLINGS[sampling], drafting=way == "drafted", tokens=tokens)
    profiler.enable()
    answer(pair, SAMPLINGS[sampling], drafting=way == "drafted", tokens=tokens)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocabularies", nargs="*", type=int, default=VOCABULARIES)
    parser.add_argument("--tokens", type=int, default=400, help="of each answer")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", metavar="NAME", help="greedy-plain, sampled-drafted, …")
    options = parser.parse_args()
    for n_vocab in options.vocabularies:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            write_model(path, n_vocab)
            load = LoadOptions(n_ctx=2048)
            with closing(Pair(path, method="lookup", options=load)) as pair:
                if options.profile:
                    profile(pair, options.profile, options.tokens)
                    continue
                for name, ms in figures(pair, options):
                    print(f"{n_vocab:>7} {name:<16} {ms:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
