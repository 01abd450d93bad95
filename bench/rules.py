"""How many draft tokens each rule accepts: the table of docs/exactness.md.

    python bench/rules.py --draft qwen2.5-coder-0.5b --temperature 0.8

Expected values, not counts. The target samples an answer to each prompt; at every fifth place of
it the draft model drafts twice, once drawn from its q and once its argmaxes, and one target pass
over each draft gives the chances that 1, 2, … k of its tokens are accepted. All rules are given the
same drafts, so that a difference is the rules' own. A busy machine does no harm.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acceptance.expected import acceptance_chances
from acceptance.texts import Text, add_text_arguments, categories, model_file, target_texts
from specchat.errors import SpecchatError
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.drafter import Drafter
from specengine.core.errors import SpecEngineError
from specengine.core.limits import MAX_DRAFT
from specengine.core.tokens import Tokens
from specengine.files.compatibility import require_compatible
from specengine.files.gguf import read_gguf
from specengine.load.drafting import Drafting
from specengine.load.loaded_model import LoadedModel, LoadOptions
from specengine.load.pair import Pair
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms

OPTIONS = LoadOptions(n_ctx=4096)
RULES = ("block", "token", "argmax", "coupled")

Chances = NDArray[np.float64]
"""Shape (k,): that at least 1, 2, … k draft tokens are accepted."""


@dataclass(frozen=True)
class Sides:
    """A target and what drafts for it: draws from q, and argmaxes."""

    target: Pair
    transforms: Transforms
    drawn: Drafter
    argmax: Drafter

    def chances(self, prefix: Tokens, k: int) -> dict[str, Chances]:
        """For each rule, the chances of one round after `prefix`."""
        drawn = self._by_rule(("block", "token", "coupled"), self.drawn.propose(prefix, k), prefix)
        # Compared with what the target samples, a token is accepted with p: `token`, q a point.
        sure = self._by_rule(("token",), self.argmax.propose(prefix, k), prefix)
        return {**drawn, "argmax": sure["token"]}

    def _by_rule(self, rules: Sequence[str], draft: Draft, prefix: Tokens) -> dict[str, Chances]:
        tokens = np.concatenate((prefix, np.array(draft.tokens, dtype=np.int32)))
        rows = self.target.context.logits(tokens, last=len(draft) + 1)
        before = [tokens[: len(prefix) + i] for i in range(len(draft))]
        p = [self.transforms.distribution(rows[i], text) for i, text in enumerate(before)]
        return {rule: np.array(acceptance_chances(rule, draft, p)) for rule in rules}


def main() -> None:
    options = _arguments()
    sampling = SamplingParams(
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p,
        min_p=options.min_p, seed=options.seed,
    )  # fmt: skip
    target = Pair(model_file(options.target), method="lookup", options=OPTIONS)
    path = model_file(options.draft)
    vocabularies = require_compatible(read_gguf(target.files[0]), read_gguf(path))
    draft = LoadedModel(path, OPTIONS, AbortFlag(), 1)
    try:
        texts = list(target_texts(target, options, sampling))
        drafting = Drafting(target.vocab, draft, vocabularies)
        sides = Sides(target, Transforms(sampling), *_drafters(drafting, sampling))
        found: dict[str, dict[str, list[Chances]]] = defaultdict(lambda: defaultdict(list))
        for text in texts:
            for chances in _rounds(sides, text, options.draft_length):
                for rule, values in chances.items():
                    found[text.category][rule].append(values)
            print(f"{text.id}: {len(text.tokens)} tokens", file=sys.stderr)
    finally:
        draft.close()
        target.close()
    _print_table(categories(texts), found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    defaults = SamplingParams()
    parser.add_argument("--draft", required=True, help="registry name or GGUF file")
    parser.add_argument("--draft-length", type=int, default=4, choices=range(1, MAX_DRAFT + 1))
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=defaults.top_k)
    parser.add_argument("--top-p", type=float, default=defaults.top_p)
    parser.add_argument("--min-p", type=float, default=defaults.min_p)
    parser.add_argument("--seed", type=int, default=1)
    add_text_arguments(parser)
    return parser.parse_args()


def _drafters(drafting: Drafting, sampling: SamplingParams) -> tuple[Drafter, Drafter]:
    """The draft model drawing from its q, and the same taking its argmaxes."""
    greedy = SamplingParams(temperature=0)
    made = (
        drafting.drafters("model", Transforms(params), make_rule(rule, params))
        for params, rule in ((sampling, "token"), (greedy, "greedy"))
    )
    (drawn,), (argmax,) = made
    return drawn, argmax


def _rounds(sides: Sides, text: Text, k: int, every: int = 5) -> Iterator[dict[str, Chances]]:
    tokens = np.array(text.prompt + text.tokens, dtype=np.int32)
    for position in range(len(text.prompt) + 1, len(tokens), every):
        yield sides.chances(tokens[:position], k)


def _print_table(names: Sequence[str], found: dict[str, dict[str, list[Chances]]]) -> None:
    print("| | rounds |", " | ".join(f"{rule}" for rule in RULES), "|")
    print("|---" * (len(RULES) + 2) + "|")
    for name in names:
        rounds = found[name]
        cells = [_cell(rounds[rule]) for rule in RULES]
        print(f"| {name} | {len(rounds['token'])} |", " | ".join(cells), "|")


def _cell(rounds: list[Chances]) -> str:
    """Acceptance of a first draft token, and tokens a round."""
    if not rounds:
        return "–"
    first = np.mean([chances[0] for chances in rounds])
    return f"{first:.3f} · {1 + np.mean([chances.sum() for chances in rounds]):.2f}"


if __name__ == "__main__":
    try:
        main()
    except (SpecchatError, SpecEngineError) as error:
        sys.exit(f"{Path(__file__).name}: {error}")
