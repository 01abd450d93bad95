"""Files of other programs are found where those keep them, and never touched."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specchat.models.scan import Found, scan

SHA256 = "ab" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def put(path: Path, content: bytes = b"GGUF and so on") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def found_in(tmp_path: Path) -> list[Found]:
    return scan(tmp_path / "models")


def test_nothing_anywhere(tmp_path: Path) -> None:
    assert found_in(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_hugging_face_cache(tmp_path: Path, home: Path) -> None:
    repository = home / ".cache/huggingface/hub/models--Qwen--Qwen3-8B-GGUF"
    blob = put(repository / "blobs" / SHA256)
    snapshot = repository / "snapshots/0123abc"
    (snapshot / "sub").mkdir(parents=True)
    (snapshot / "sub/Qwen3-8B-Q4_K_M.gguf").symlink_to(blob)
    (snapshot / "gone.gguf").symlink_to(repository / "blobs/missing")
    (found,) = found_in(tmp_path)
    assert found.keeper == "Hugging Face"
    assert found.name == "Qwen/Qwen3-8B-GGUF/sub/Qwen3-8B-Q4_K_M.gguf"
    assert (found.sha256, found.size) == (SHA256, 14)


@pytest.mark.parametrize(("variable", "below"), [("HF_HOME", "hub"), ("HF_HUB_CACHE", "")])
def test_hugging_face_cache_elsewhere(
    tmp_path: Path, variable: str, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    put(tmp_path / "elsewhere" / below / "models--a--b/snapshots/1/c.gguf")
    assert [found.name for found in found_in(tmp_path)] == ["a/b/c.gguf"]


def test_lm_studio_in_its_folders_of_then_and_now(tmp_path: Path, home: Path) -> None:
    put(home / ".lmstudio/models/owner/repo/new.gguf")
    put(home / ".cache/lm-studio/models/owner/repo/old.gguf")
    put(tmp_path / "disk/owner/repo/chosen.gguf")
    settings = json.dumps({"downloadsFolder": str(tmp_path / "disk")})
    put(home / ".lmstudio/settings.json", settings.encode())
    assert {(found.keeper, found.name) for found in found_in(tmp_path)} == {
        ("LM Studio", f"owner/repo/{name}.gguf") for name in ("new", "old", "chosen")
    }


def test_lm_studio_home_pointer(tmp_path: Path, home: Path) -> None:
    put(home / ".lmstudio-home-pointer", str(tmp_path / "moved").encode())
    put(tmp_path / "moved/models/owner/repo/a.gguf")
    assert [found.name for found in found_in(tmp_path)] == ["owner/repo/a.gguf"]


def ollama(home: Path, name: str, digest: str) -> Path:
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "cd" * 32},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    return put(home / "ollama/manifests" / name, json.dumps({"layers": layers}).encode())


def test_ollama_names_its_blobs(tmp_path: Path, home: Path) -> None:
    ollama(home, "registry.ollama.ai/library/qwen2.5/7b", SHA256)
    ollama(home, "registry.ollama.ai/someone/model/latest", "ef" * 32)
    ollama(home, "hf.co/Qwen/Qwen3-8B-GGUF/Q8_0", "aa" * 32)
    for digest in (SHA256, "ef" * 32, "aa" * 32):
        put(home / f"ollama/blobs/sha256-{digest}")
    assert {(found.name, found.sha256) for found in found_in(tmp_path)} == {
        ("qwen2.5:7b", SHA256),
        ("someone/model:latest", "ef" * 32),
        ("hf.co/Qwen/Qwen3-8B-GGUF:Q8_0", "aa" * 32),
    }


def test_two_names_of_one_blob_are_one_file(tmp_path: Path, home: Path) -> None:
    for tag in ("7b", "latest"):
        ollama(home, f"registry.ollama.ai/library/qwen2.5/{tag}", SHA256)
    put(home / f"ollama/blobs/sha256-{SHA256}")
    assert [found.name for found in found_in(tmp_path)] == ["qwen2.5:7b"]


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"layers": 3}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model"}]}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": 7}]}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", '
        b'"digest": "sha256:../../../../etc/passwd"}]}',
        b"\xff\xfe",
    ],
)
def test_odd_ollama_manifests_are_passed_over(tmp_path: Path, home: Path, manifest: bytes) -> None:
    put(home / "ollama/manifests/registry.ollama.ai/library/odd/latest", manifest)
    assert found_in(tmp_path) == []


def test_llama_cpp_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "llama"))
    put(tmp_path / "llama/owner_repo_file.gguf")
    put(tmp_path / "llama/owner_repo_file.gguf.json", b"{}")
    assert [(f.keeper, f.name) for f in found_in(tmp_path)] == [
        ("llama.cpp", "owner_repo_file.gguf")
    ]


def test_own_downloads_are_found_and_unfinished_ones_are_not(tmp_path: Path) -> None:
    put(tmp_path / "models/a.gguf")
    put(tmp_path / "models/.incomplete/b.gguf")
    put(tmp_path / "models/c.gguf", b"<html>")
    assert [(f.keeper, f.name) for f in found_in(tmp_path)] == [("specchat", "a.gguf")]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_one_file_under_two_folders_is_listed_once(tmp_path: Path, home: Path) -> None:
    real = put(home / ".lmstudio/models/owner/repo/a.gguf")
    (tmp_path / "models").mkdir()
    (tmp_path / "models/linked.gguf").symlink_to(real)
    assert len(found_in(tmp_path)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize(
    "keeper", ["models", "home/.cache/huggingface/hub/models--a--b/snapshots/1"]
)
@pytest.mark.parametrize(
    "make",
    [Path.mkdir, getattr(os, "mkfifo", None), lambda path: path.symlink_to(path)],
    ids=["a folder", "a pipe, which would keep us waiting", "a link to itself"],
)
def test_what_is_only_named_like_a_model_is_passed_over(
    tmp_path: Path, keeper: str, make: Callable[[Path], None]
) -> None:
    folder = put(tmp_path / keeper / "a.gguf").parent
    make(folder / "odd.gguf")
    (folder / "loop").symlink_to(folder)
    assert [found.path.name for found in found_in(tmp_path)] == ["a.gguf"]


def test_an_unset_folder_in_lm_studio_is_not_the_present_one(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "work/mine.gguf")
    put(home / ".lmstudio/settings.json", json.dumps({"downloadsFolder": ""}).encode())
    monkeypatch.chdir(tmp_path / "work")
    assert found_in(tmp_path) == []


def test_a_model_that_the_program_carries_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "packaged"
    packaged.mkdir()
    (packaged / "small.gguf").write_bytes(b"GGUF and more")
    monkeypatch.setattr("specchat.models.scan.PACKAGED", packaged)
    [found] = [each for each in scan(tmp_path / "models") if each.path.parent == packaged]
    assert (found.keeper, found.name, found.size) == ("specchat", "small.gguf", 13)
