"""Starting and ending llama-server: a program that behaves like it, or does not."""

import stat
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from servers import llama_server
from servers.child import read_log
from servers.llama_server import PeerServer, find_program, require_program
from servers.llama_server_child import PeerModels
from specchat.benchmark.errors import BenchmarkError

posix = pytest.mark.skipif(sys.platform == "win32", reason="a script as a program")

SERVES = """#!{python}
import http.server, os, sys
print("arguments:", *sys.argv[1:], file=sys.stderr)
print("draft:", os.environ["LLAMA_ARG_SPEC_TYPE"], file=sys.stderr, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    answers = 0
    def do_GET(self):
        Handler.answers += 1
        self.send_response(503 if Handler.answers == 1 else 200)
        self.end_headers()
        self.wfile.write(b'{"build_info": "b123-abc"}')
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
FAILS = """#!{python}
import sys
print("error: failed to load model", file=sys.stderr)
sys.exit(1)
"""
MODELS = PeerModels(target=Path("t.gguf"), draft=Path("d.gguf"), n_ctx=512, threads=2)


def program(tmp_path: Path, source: str) -> str:
    path = tmp_path / "llama-server"
    path.write_text(source.replace("{python}", sys.executable), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@posix
async def test_a_named_program_gets_the_files_and_is_ended(tmp_path: Path) -> None:
    with closing(PeerServer(program(tmp_path, SERVES), MODELS)) as server:
        await server.ready()
        pid = server._process.pid
        assert psutil.pid_exists(pid)
        assert server.about == "llama-server b123-abc"
        arguments = "-m t.gguf -md d.gguf -c 512 -np 1 -t 2 -tb 2 --host 127.0.0.1 --port"
        assert f"arguments: {arguments}" in read_log(server._log)
        assert "draft: draft-simple" in read_log(server._log)
        async with server.client() as client:
            assert (await client.get("/health")).status_code == 200
    assert not psutil.pid_exists(pid)


@posix
async def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        closing(PeerServer(program(tmp_path, FAILS), MODELS)) as server,
        pytest.raises(BenchmarkError, match="does not start: error: failed to load model"),
    ):
        await server.ready()


@posix
@pytest.mark.parametrize("said", [b"[]", b"<html>"])
async def test_a_program_that_is_no_llama_server_is_named(tmp_path: Path, said: bytes) -> None:
    source = SERVES.replace(repr(b'{"build_info": "b123-abc"}'), repr(said))
    assert source != SERVES
    with (
        closing(PeerServer(program(tmp_path, source), MODELS)) as server,
        pytest.raises(BenchmarkError, match="are not those of a llama-server"),
    ):
        await server.ready()


@posix
def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    path = program(tmp_path, "\0 no program")
    with pytest.raises(BenchmarkError, match=f"{path} cannot be run: Exec format"):
        require_program(path)
    require_program(program(tmp_path, SERVES))


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(BenchmarkError, match=r"^no/such: there is no such program"):
        find_program("no/such")


def test_without_package_and_program_the_person_is_told_both_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(llama_server, "_PACKAGE", "no_such_package")
    with pytest.raises(BenchmarkError, match=r"pip install.*or name the program"):
        find_program("llama-server")


def test_models_survive_the_way_to_the_child() -> None:
    for models in (MODELS, MODELS.model_copy(update={"draft": None})):
        assert PeerModels.model_validate_json(models.model_dump_json()) == models
