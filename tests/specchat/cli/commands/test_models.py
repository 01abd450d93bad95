"""`specchat models` as a person types it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from specchat.cli.commands.models import command
from support.block_heads import random_block_head
from support.eagle3_heads import random_head
from support.file_server import FileServer, file_server
from support.gguf_files import WORDS, write_gguf
from support.head_files import write_head
from support.isolation import isolate
from support.registry_models import kept_by_lm_studio


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as server:
        yield server


@pytest.fixture
def pair(tmp_path: Path) -> tuple[bytes, bytes]:
    """A target, and a draft with a longer vocabulary."""
    target = write_gguf(tmp_path / "t.gguf", n_tensors=400).read_bytes()
    draft = write_gguf(tmp_path / "d.gguf", tokens=[*WORDS, "[PAD]"]).read_bytes()
    return target, draft


@pytest.fixture(autouse=True)
def _registry(
    tmp_path: Path,
    server: FileServer,
    pair: tuple[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A person's own registry that adds a profile `small` of two models."""
    isolate(tmp_path, server, monkeypatch)
    entries = []
    for name, content in zip(("small", "smaller"), pair, strict=True):
        server.files[f"/{name}.gguf"] = content
        entries.append(
            f'[models.{name}]\ndescription = "Test"\nlicence = "MIT"\nbytes = {len(content)}\n'
            f'sha256 = "{hashlib.sha256(content).hexdigest()}"\n'
            f'sources = ["{server.url}/{name}.gguf"]\n'
        )
    entries.append('[profiles.small]\ndescription = ""\ntarget = "small"\ndraft = "smaller"\n')
    config = tmp_path / "specchat/config"
    config.mkdir(parents=True)
    (config / "models.toml").write_text("".join(entries))


def models(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def models_json(*arguments: str) -> Any:
    result = models(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_pulling_a_profile_brings_all_its_models(tmp_path: Path) -> None:
    pulled = models_json("pull", "small")
    assert [(m["name"], m["keeper"]) for m in pulled] == [
        ("small", "specchat"),
        ("smaller", "specchat"),
    ]
    assert all(Path(m["path"]).exists() for m in pulled)
    listed = {m["name"]: m for m in models_json("list")["models"]}
    assert listed["small"]["path"] == pulled[0]["path"]
    assert listed["smollm2-135m"]["path"] is None


def test_progress_goes_to_standard_error_and_results_to_standard_output() -> None:
    result = models("pull", "small")
    assert result.stdout.splitlines()[0].startswith("small: /")
    assert "small: " in result.stderr
    assert " of " in result.stderr


def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    told = "there is no model or profile 'smal', did you mean 'small'?"
    assert str(models("pull", "smal").exception) == told


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_ctrl_c_keeps_what_came_and_exits_130(tmp_path: Path, server: FileServer) -> None:
    server.stalls = [100_000]
    process = subprocess.Popen(
        [sys.executable, "-m", "specchat", "models", "pull", "small"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    assert "small: " in first
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "the next `models pull` continues from here" in err
    assert "Traceback" not in err
    unfinished = {m["name"]: m["unfinished"] for m in models_json("list")["models"]}
    assert unfinished["small"] > 0
    models_json("pull", "small")
    assert server.gets("/small.gguf")[1] == f"bytes={unfinished['small']}-"


def test_a_pair_that_works_is_said_to(tmp_path: Path) -> None:
    models_json("pull", "small")
    result = models("check", "small", "smaller")
    assert result.exit_code == 0
    assert "yes: smaller.gguf can draft for small.gguf, token by token" in result.stdout
    assert "ids from 62 on are never drafted" in result.stdout
    checked = models_json("check", "small", "smaller")
    assert (checked["verdict"], checked["n_shared"]) == ("padded", 62)


@pytest.mark.parametrize(
    ("n_other", "way", "said"),
    [
        (
            1,
            "tokens",
            "yes: other.gguf can draft for small.gguf, with the tokens that both vocabularies have",
        ),
        (
            30,
            "text",
            "yes: other.gguf can draft for small.gguf, as text, which is then encoded for it",
        ),
    ],
)
def test_a_pair_of_different_vocabularies_names_the_token_and_the_way(
    tmp_path: Path, n_other: int, way: str, said: str
) -> None:
    tokens = ["<pad>", *(f"other{n}" for n in range(n_other - 1)), *WORDS[n_other:]]
    other = write_gguf(tmp_path / "other.gguf", tokens=tokens)
    models_json("pull", "small")
    checked = models_json("check", "small", str(other))
    assert (checked["verdict"], checked["way"]) == ("different", way)
    assert checked["difference"] == {"token": 0, "target": "<s>", "draft": "<pad>"}
    output = models("check", "small", str(other)).stdout
    assert said in output
    assert "id 0 is '<s>' in small.gguf and '<pad>' in other.gguf" in output


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ({"tokens": [], "types": []}, "is a model without a vocabulary: convert it again"),
        ({"architecture": "clip"}, "is the part of a model that reads images or sound"),
    ],
)
def test_what_is_no_language_model_cannot_draft_which_is_exit_1(
    tmp_path: Path, content: dict[str, Any], cause: str
) -> None:
    other = write_gguf(tmp_path / "other.gguf", **content)
    models_json("pull", "small")
    result = models("check", "small", str(other))
    assert result.exit_code == 1
    assert f"other.gguf {cause}" in str(result.exception)


def test_a_head_is_checked_against_the_target_that_it_was_made_for(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf")
    weights = random_head(64, len(WORDS), layers=(0, 1, 3), n_draft_vocab=20)
    head = write_head(tmp_path / "head.gguf", weights, whole)
    result = models("check", str(whole), str(head))
    assert result.exit_code == 0
    said = "yes: head.gguf can draft for whole.gguf, as a head (EAGLE-3), from its hidden states"
    assert said in result.stdout
    assert models_json("check", str(whole), str(head))["way"] == "head"
    write_head(head, weights, whole, metadata={"target_layers": [0, 1, 9]})
    result = models("check", str(whole), str(head))
    assert result.exit_code == 1
    assert "no: the head reads layer 9 of its target, but whole.gguf has layers" in result.stdout


def test_a_block_head_is_told_by_its_kind(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf")
    for settings, kind in (({}, "DFlash"), ({"markov": True}, "DSpark")):
        weights = random_block_head(64, len(WORDS), layers=(0, 3), mask=1, **settings)
        head = write_head(tmp_path / "head.gguf", weights, whole)
        output = models("check", str(whole), str(head)).stdout
        assert f"can draft for whole.gguf, as a head ({kind}), from its hidden" in output
    write_head(head, weights, whole, metadata={"tokenizer.ggml.mask_token_id": None})
    result = models("check", str(whole), str(head))
    assert result.exit_code == 1
    assert "no: head.gguf cannot be used: a block head needs a mask token" in result.stdout


def test_a_model_that_drafts_in_one_pass_is_told_by_its_mask_token(tmp_path: Path) -> None:
    masked = write_gguf(tmp_path / "masked.gguf", extra={"tokenizer.ggml.mask_token_id": 7})
    models_json("pull", "small")
    output = models("check", "small", str(masked)).stdout
    assert "it drafts all tokens in one pass if it was trained for that (mask token 7)" in output
    assert models_json("check", "small", str(masked))["mask_token"] == 7
    assert models_json("check", str(masked), "small")["mask_token"] is None


def test_the_first_layers_become_a_draft_model(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf", n_tensors=4)
    cut = tmp_path / "cut.gguf"
    result = models("layerskip", str(whole), "--layers", "2", "--output", str(cut))
    assert result.exit_code == 0
    assert "cut.gguf: 2 layers" in result.stdout
    assert models_json("check", str(whole), str(cut))["way"] == "ids"
    models("layerskip", str(whole), "--layers", "3")
    assert (tmp_path / "specchat/data/models/whole-first-3.gguf").exists()
    assert "whole.gguf has 4 layers: keep from 1 to 3" in str(
        models("layerskip", str(whole), "--layers", "4").exception
    )


def test_checking_downloads_nothing(server: FileServer) -> None:
    refused = str(models("check", "small", "smaller").exception)
    assert refused == "small is not on this computer: run `specchat models pull small`"
    assert server.requests == []


def test_scanning_says_which_files_are_known_and_which_are_damaged(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    kept_by_lm_studio(tmp_path, pair[0], "good.gguf")
    kept_by_lm_studio(tmp_path, pair[0][:-2000], "cut.gguf")
    found = {f["name"]: f for f in models_json("scan")}
    assert found["owner/repo/good.gguf"]["model"] == "small"
    assert found["owner/repo/good.gguf"]["architecture"] == "llama"
    assert "truncated" in found["owner/repo/cut.gguf"]["problem"]
    assert "LM Studio" in models("scan").stdout
    assert "yes, by LM Studio" in models("list").stdout


def test_what_a_terminal_would_obey_is_shown_instead(tmp_path: Path) -> None:
    kept_by_lm_studio(tmp_path, b"GGUF", "a\x1b[31m[bold]b.gguf")
    output = models("scan").stdout
    assert "\x1b" not in output
    assert "a␛[31m[bold]b.gguf" in output


def test_removing_deletes_finished_and_unfinished_downloads(
    tmp_path: Path, server: FileServer, pair: tuple[bytes, bytes]
) -> None:
    models_json("pull", "small")
    unfinished = tmp_path / "specchat/data/models/.incomplete/small.part"
    unfinished.write_bytes(bytes(5))
    assert models_json("rm", "small") == [{"name": "small", "bytes": len(pair[0]) + 5}]
    assert not unfinished.exists()
    assert "nothing was downloaded" in models("rm", "small").stdout
    assert models("rm", "nope").exit_code == 1
