"""Huge pages are asked for where weights will lie, before they do."""

from __future__ import annotations

import mmap
import re
import sys
from pathlib import Path

import pytest

from specengine.llama import huge_pages
from specengine.llama.model import LlamaModel

MAPS = b"""\
557c2a400000-557c2c400000 rw-p 00000000 00:00 0                          [heap]
7f10a0000000-7f10a4000000 ---p 00000000 00:00 0
7f10a8000000-7f10ac000000 rw-p 00000000 00:00 0
7f10ac000000-7f10acfff000 rw-p 00000000 00:00 0
7f10b0000000-7f10b8000000 r--p 00000000 fe:00 1234   /models/a b.gguf
7f10c0000000-7f10c8000000 rw-p 00000000 fe:00 1235   /tmp/copy
7f10d0000000-7f10d8000000 rw-s 00000000 00:01 77     /dev/zero (deleted)
7f10e0000000-7f10e1000000 rw-p 00000000 00:00 0
"""


def test_only_large_private_memory_of_no_file_counts() -> None:
    assert list(huge_pages.large_mappings(MAPS)) == [
        (0x7F10A8000000, 64 << 20),
        (0x7F10E0000000, 16 << 20),
    ]


def test_names_of_mapped_files_may_hold_any_bytes() -> None:
    odd = b"7f10c0000000-7f10c8000000 r--p 00000000 fe:00 9   /models/caf\xe9\x85\x0c \r.gguf\n"
    assert list(huge_pages.large_mappings(odd + MAPS)) == list(huge_pages.large_mappings(MAPS))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is asked")
def test_where_the_mappings_cannot_be_read_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huge_pages, "_MAPS", tmp_path / "hidden")
    huge_pages.ask()


@pytest.mark.skipif(huge_pages.mode() is None, reason="this kernel has no huge pages")
def test_the_kernel_takes_the_advice() -> None:
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        before = _advised()
        huge_pages.ask()
        assert _advised() - before >= len(memory)


def test_a_model_asks_once_before_its_weights_are_read(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float | str] = []
    monkeypatch.setattr(huge_pages, "ask", lambda: heard.append("asked"))
    LlamaModel(tiny_model, on_progress=heard.append).close()
    assert heard[:2] == ["asked", 0]
    assert heard.count("asked") == 1
    assert heard[-1] == 1


@pytest.mark.skipif(sys.platform == "linux", reason="elsewhere nothing is asked")
def test_elsewhere_nothing_happens() -> None:
    huge_pages.ask()
    assert huge_pages.mode() is None


@pytest.mark.parametrize(
    ("text", "mode"),
    [("always [madvise] never\n", "madvise"), ("always madvise [never]\n", "never"), ("", None)],
)
def test_the_mode_is_the_one_in_brackets(
    text: str, mode: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "enabled"
    file.write_text(text)
    monkeypatch.setattr(huge_pages, "_MODE", file)
    assert huge_pages.mode() == mode


def test_a_kernel_without_them_has_no_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_MODE", tmp_path / "enabled")
    assert huge_pages.mode() is None


def _advised() -> int:
    """Bytes of this process for which huge pages were asked."""
    entries = re.findall(
        r"^Size: +(\d+) kB$.*?^VmFlags:(.*?)$",
        Path("/proc/self/smaps").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return sum(int(size) << 10 for size, flags in entries if "hg" in flags.split())
