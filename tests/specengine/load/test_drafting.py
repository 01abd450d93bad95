"""Which drafters an answer gets, by what is loaded and how the vocabularies compare."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.control.controller import AdaptiveDraftLength
from specengine.core.drafter import Offer
from specengine.drafters.bridge import SameIds, TokenIntersection
from specengine.drafters.model import ModelDrafter
from specengine.drafters.text import TextDrafter
from specengine.files.compatibility import Comparison, Way
from specengine.load.drafting import Drafting, DraftMethod, with_length
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from support.fakes import FakeKVCache, markov
from support.piece_vocab import PieceVocab

TARGET = PieceVocab([b"a", b"b", b"c", b"ab"])
DRAFT = PieceVocab([b"a", b"b", b"c"])
GREEDY = SamplingParams(temperature=0)


def draft_model(mask_token: int | None = None) -> Any:
    context = Context(FakeKVCache(markov(DRAFT.size, 1), DRAFT.size))
    return SimpleNamespace(
        name="small", vocab=DRAFT, context=context, abort=None, mask_token=mask_token
    )


def compared(way: Way, n_shared: int) -> Comparison:
    return Comparison("different", TARGET.size, DRAFT.size, n_shared, way, overlap=0.5)


def drafters(drafting: Drafting, method: DraftMethod) -> list[Any]:
    return cast(list[Any], drafting.drafters(method, Transforms(GREEDY), make_rule(None, GREEDY)))


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("none", []),
        ("lookup", ["lookup"]),
        ("model", ["small"]),
        ("cascade", ["lookup", "small"]),
    ],
)
def test_the_cheapest_comes_first(method: DraftMethod, names: list[str]) -> None:
    with_model = Drafting(TARGET, draft_model())
    assert [d.name for d in drafters(with_model, method)] == names
    without = [name for name in names if name != "small"]
    assert [d.name for d in drafters(Drafting(TARGET), method)] == without


@pytest.mark.parametrize(
    ("way", "kind", "bridge"),
    [
        ("ids", ModelDrafter, SameIds),
        ("tokens", ModelDrafter, TokenIntersection),
        ("text", TextDrafter, None),
    ],
)
def test_the_way_decides_how_a_draft_model_drafts(way: Way, kind: Any, bridge: Any) -> None:
    (drafter,) = drafters(Drafting(TARGET, draft_model(), compared(way, 2)), "model")
    assert isinstance(drafter, kind)
    assert bridge is None or isinstance(drafter._bridge, bridge)


def test_with_a_mask_token_it_drafts_in_one_pass_or_token_by_token() -> None:
    drafting = Drafting(TARGET, draft_model(mask_token=2), compared("tokens", 2))
    assert [d.name for d in drafters(drafting, "cascade")] == ["lookup", "small", "parallel"]
    # As text there is no telling which token a row is for.
    drafting = Drafting(TARGET, draft_model(mask_token=2), compared("text", 2))
    assert [d.name for d in drafters(drafting, "model")] == ["small"]


def test_case_11_ids_that_only_one_vocabulary_has_are_never_drafted() -> None:
    (drafter,) = drafters(Drafting(TARGET, draft_model(), compared("ids", 2)), "model")
    prefix = np.array([0, 1], dtype=np.int32)
    assert drafter.offer(prefix) is not None
    assert set(drafter.propose(prefix, 16).tokens) <= {0, 1}


def test_texts_of_another_vocabulary_are_not_remembered() -> None:
    drafting = Drafting(TARGET)
    drafting.remember([[0, 1, 2], [], [3, 9, 1]])
    (lookup,) = drafters(drafting, "lookup")
    assert lookup.offer(np.array([0, 1], dtype=np.int32)).kind == "earlier-phrase"
    assert lookup.offer(np.array([3], dtype=np.int32)) is None


def test_with_a_fixed_draft_length_the_draft_model_drafts_alone_and_nothing_is_chosen() -> None:
    cascade = drafters(Drafting(TARGET, draft_model()), "cascade")
    adaptive = AdaptiveDraftLength(lambda width: 1.0, longest=4)
    assert with_length(cascade, adaptive, None, 4) == (cascade, adaptive)
    dear = Offer("small", 16, prior=0.01, token_s=100)
    for asked, given in ((2, 2), (9, 4)):
        alone, controller = with_length(cascade, adaptive, asked, 4)
        assert [drafter.name for drafter in alone] == ["small"]
        assert controller.choose([dear], room=16).length == given
