"""`bench/against.py` as a child process, beside a program that answers as a llama-server does."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from specchat.benchmark.report import Report
from support.command_line import bench_program

SERVER = """#!{python}
import http.server, json, sys
TIMINGS = {"prompt_ms": 1.0, "predicted_n": 3, "predicted_ms": 1.0}
EVENTS = [{"content": "a"}, {"content": "b"}, {"stop": True, "timings": TIMINGS}]
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())
    def do_GET(self):
        self.answer('{"build_info": "b123"}')
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer("".join(f"data: {json.dumps(event)}\\n\\n" for event in EVENTS))
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a script as a program")
def test_the_controller_is_compared_with_llama_server_under_every_condition(
    tiny_model: Path, tmp_path: Path
) -> None:
    program, prompts = tmp_path / "llama-server", tmp_path / "p.jsonl"
    program.write_text(SERVER.replace("{python}", sys.executable), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    item = {"id": "a-1", "category": "a", "prompt": "Count to nine."}
    prompts.write_text(json.dumps(item), encoding="utf-8")
    done = bench_program(
        "against.py",
        tmp_path,
        *(str(program), "--target", "smollm2-135m", "--draft", "smollm2-135m", "--ctx", "512"),
        *("--prompts", str(prompts), "--quick", "--busy", "--side", "adaptive", "--json"),
    )
    assert done.returncode == 0, done.stderr.decode()
    report = Report.model_validate_json(done.stdout)
    peers = {"llama-server", "llama-server-alone"}
    assert peers | {"alone", "adaptive"} == {side.name for side in report.sides}
    assert [side.description for side in report.sides if side.name == "llama-server"] == [
        f"at its defaults, drafts by {tiny_model.name}; llama-server b123"
    ]
    assert report.peer_draft is not None
    assert report.peer_draft.file == tiny_model.name
    assert {(c.condition, c.over) for c in report.comparisons if c.side == "adaptive"} == {
        (condition, over)
        for condition in ("greedy", "greedy, busy neighbour")
        for over in (*peers, "alone")
    }
