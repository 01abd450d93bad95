"""What drafts for a profile: decided from what is on this computer."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from specchat.backends import preparation, trials
from specchat.backends.preparation import PreparedPair, draft_method, prepare
from specchat.config.settings import Settings
from specchat.errors import SpecchatError
from specchat.models.registry import Registry, load_registry
from specchat.models.selection import select_profile
from specengine.core.errors import BackendError, CancelledError, ModelFileError, VocabMismatchError
from specengine.core.events import Progress
from specengine.files.gguf import GGUF, read_gguf
from specengine.llama import extensions
from specengine.llama.probe import ProbeResult
from specengine.load.cheaper_draft import CheaperDraft
from support.eagle3_heads import random_head
from support.gguf_files import WORDS, write_gguf
from support.head_files import write_head
from support.mtp_models import write_step35

REGISTRY = """
[models.big]
description = "target"
licence = "MIT"
sources = ["{folder}/big.gguf"]
[models.same]
description = "draft"
licence = "MIT"
sources = ["{folder}/same.gguf"]
[models.other]
description = "draft of another vocabulary"
licence = "MIT"
sources = ["{folder}/other.gguf"]
[models.head]
description = "head"
licence = "MIT"
head_for = "big"
sources = ["{folder}/head.gguf"]
[profiles.pair]
description = "pair"
target = "big"
draft = "same"
alternatives = ["other"]
n_ctx = 256
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path / "home"))
    works = ProbeResult(works=True, use_extra_bufts=True, finding="")
    monkeypatch.setattr(preparation, "probe", lambda folder: works)
    monkeypatch.setattr(preparation, "try_out", lambda *models, **how: None)
    for name, tokens in (("big", WORDS), ("same", WORDS), ("other", [*WORDS[:10], *"abcdefghi"])):
        write_gguf(tmp_path / f"{name}.gguf", tokens=tokens)
    head = random_head(64, len(WORDS), layers=(0, 1, 3), n_draft_vocab=20)
    write_head(tmp_path / "head.gguf", head, tmp_path / "big.gguf")
    own = tmp_path / "models.toml"
    own.write_text(REGISTRY.format(folder=tmp_path.as_uri()), encoding="utf-8")
    return load_registry(own)


def prepared(registry: Registry, **flags: Any) -> PreparedPair:
    profile = select_profile(registry, Settings(), profile="pair", **flags)
    return prepare(profile, registry, lambda event: None, Event())


def drafting(ready: PreparedPair) -> tuple[str | None, str]:
    """The name of the file that drafts, and the method."""
    return None if ready.draft is None else ready.draft.name, ready.method


def way(ready: PreparedPair) -> str | None:
    """How its tokens reach the target."""
    return None if ready.vocabularies is None else ready.vocabularies.way


@pytest.mark.parametrize(
    ("named", "drafts", "reaches"),
    [
        ({}, ("same.gguf", "cascade"), "ids"),
        ({"draft": "other"}, ("other.gguf", "cascade"), "text"),
        ({"draft": "lookup"}, (None, "lookup"), None),
        ({"draft": "none"}, (None, "none"), None),
    ],
    ids=["the profile's own", "of another vocabulary", "lookup alone", "nothing"],
)
def test_what_is_named_drafts_a_model_beside_lookup(
    registry: Registry, named: dict[str, str], drafts: tuple[str | None, str], reaches: str | None
) -> None:
    ready = prepared(registry, **named)
    assert (drafting(ready), way(ready)) == (drafts, reaches)


@pytest.mark.usefixtures("registry")
def test_a_mask_token_in_the_registry_lets_a_model_draft_in_one_pass(tmp_path: Path) -> None:
    own = tmp_path / "masked.toml"
    entry = "[models.same]\n"
    text = REGISTRY.format(folder=tmp_path.as_uri()).replace(entry, f"{entry}mask_token = 7\n")
    own.write_text(text, encoding="utf-8")
    vocabularies = prepared(load_registry(own)).vocabularies
    assert vocabularies is not None
    assert vocabularies.mask_token == 7
    own.write_text(text.replace("= 7", f"= {len(WORDS)}"), encoding="utf-8")
    with pytest.raises(ModelFileError, match="mask token 62 of same"):
        prepared(load_registry(own))


@pytest.mark.parametrize("pays", [True, False])
def test_a_draft_model_is_converted_where_that_pays(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    converted = read_gguf(write_gguf(tmp_path / "cheap.gguf", tokens=WORDS))
    monkeypatch.setattr(CheaperDraft, "is_worth_trying", True)
    monkeypatch.setattr(CheaperDraft, "find", lambda self, **how: converted if pays else None)
    told: list[Progress] = []
    profile = select_profile(registry, Settings(), profile="pair")
    ready = prepare(profile, registry, told.append, Event(), convert_drafts=True)
    assert drafting(ready) == ("cheap.gguf" if pays else "same.gguf", "cascade")
    assert [event.label for event in told if event.stage == "convert"] == [
        "same.gguf as Q4_0, this first time"
    ]
    itself = profile.model_copy(update={"draft": "big"})
    ready = prepare(itself, registry, told.append, Event(), convert_drafts=True)
    assert drafting(ready)[0] == "big.gguf"  # which is loaded anyway


def test_auto_takes_what_is_here_and_downloads_nothing(registry: Registry) -> None:
    assert drafting(prepared(registry, draft="auto")) == (None, "lookup")
    prepared(registry, draft="other")
    assert drafting(prepared(registry, draft="auto")) == ("other.gguf", "cascade")
    prepared(registry, draft="same")  # the profile's own comes first
    assert drafting(prepared(registry, draft="auto")) == ("same.gguf", "cascade")


def test_auto_takes_a_head_of_the_target_before_any_draft_model(registry: Registry) -> None:
    prepared(registry, draft="same")
    named = prepared(registry, draft="head")
    assert drafting(named) == ("head.gguf", "cascade")
    assert way(named) == "head"
    assert prepared(registry, draft="auto").draft == named.draft
    other = prepared(registry, target="other", draft="auto")
    assert drafting(other) == ("same.gguf", "cascade")


def test_without_llama_cpps_functions_for_heads_auto_does_without_them(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require() -> None:
        raise BackendError("this build of llama.cpp does not export llama_set_embeddings_layer_inp")

    monkeypatch.setattr(extensions, "require", require)
    with pytest.raises(BackendError, match="does not export"):
        prepared(registry, draft="head")
    assert drafting(prepared(registry, draft="auto")) == (None, "lookup")


def test_heads_in_the_targets_own_file_draft_if_asked_for_and_before_all_others(
    registry: Registry, tmp_path: Path
) -> None:
    write_step35(tmp_path / "other.gguf", 1, WORDS[:39])
    assert drafting(prepared(registry, target="other", draft="mtp")) == (None, "mtp")
    prepared(registry, draft="same")
    assert prepared(registry, target="other", draft="auto").method == "mtp"
    assert prepared(registry, target="other", draft="lookup").method == "lookup"
    with pytest.raises(ModelFileError, match=r"big.gguf has no heads for multi-token prediction"):
        prepared(registry, draft="mtp")


def test_the_heads_of_a_target_elsewhere_are_not_here(registry: Registry) -> None:
    profile = select_profile(registry, Settings(), profile="pair", draft="mtp")
    with pytest.raises(BackendError, match="which a server does not share"):
        draft_method(profile, has_model=False)


def test_a_head_of_another_target_is_refused_before_it_is_loaded(registry: Registry) -> None:
    with pytest.raises(VocabMismatchError, match=r"vocabulary of head.gguf is not that of other"):
        prepared(registry, target="other", draft="head")


def test_auto_leaves_a_draft_model_out_that_does_not_fit(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(registry, draft="same")

    def require_memory(target: object, draft: object, n_ctx: int, **options: object) -> None:
        if draft is not None:
            raise SpecchatError("not enough memory")

    monkeypatch.setattr(preparation, "require_memory", require_memory)
    assert drafting(prepared(registry, draft="auto")) == (None, "lookup")


def test_models_are_tried_before_they_are_loaded_a_head_beside_its_target(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[str]] = []

    def try_out(*models: GGUF, **how: Any) -> None:
        tried.append([model.path.name for model in models])

    monkeypatch.setattr(preparation, "try_out", try_out)
    prepared(registry)
    prepared(registry, draft="head")
    prepared(registry, draft="lookup")
    big = "big.gguf"
    assert tried == [[big], ["same.gguf"], [big], [big, "head.gguf"], [big]]


def test_a_draft_model_that_would_end_the_process_is_passed_over(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def try_out(*models: GGUF, **how: Any) -> None:
        if models[-1].path.name != "big.gguf":
            raise ModelFileError("it dies")

    monkeypatch.setattr(preparation, "try_out", try_out)
    assert prepared(registry, draft="auto").draft is None
    with pytest.raises(ModelFileError, match="it dies"):
        prepared(registry)


@pytest.mark.usefixtures("registry")
def test_the_first_trial_of_a_model_is_said_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "remembered_in", lambda: tmp_path / "trials")
    model = read_gguf(tmp_path / "big.gguf")
    told: list[Progress] = []
    cancel = Event()
    cancel.set()
    with pytest.raises(CancelledError):
        trials.try_out(model, on_event=told.append, cancel=cancel)
    assert [(event.stage, event.total) for event in told] == [("load", 0)]
    assert "big.gguf" in told[0].label
