"""`specchat ask` as a child process, on the embedded default model."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command_line import on_terminal, refusal, specchat, started
from support.smollm import UNENDING

pytestmark = pytest.mark.usefixtures("tiny_model")

GREEDY = ("--profile", "tiny", "--temperature", "0")
UNENDING_FLAGS = [f"--logit-bias={token}={bias}" for token, bias in UNENDING.items()]
STORY = ("ask", "Tell a very long story.", "--profile", "tiny")
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def ask_json(home: Path, *arguments: str) -> dict[str, Any]:
    result = specchat(home, "ask", *arguments, "--json")
    assert result.returncode == 0, result.stderr.decode()
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_it_says_paris(home: Path) -> None:
    # Nothing else comes within two nats of it.
    said = ("The capital of France is", "--raw", "--max-tokens", "1")
    result = specchat(home, "ask", *said, *GREEDY)
    assert result.returncode == 0
    assert result.stdout.decode().strip() == "Paris"
    assert result.stdout.endswith(b"\n")


def test_standard_input_is_appended_to_the_prompt(home: Path) -> None:
    flags = (*GREEDY, "--json", "--max-tokens", "1")
    both = specchat(home, "ask", "What is the capital", *flags, stdin="of France?")
    whole = specchat(home, "ask", "What is the capital\n\nof France?", *flags)
    assert json.loads(both.stdout)["tokens"] == json.loads(whole.stdout)["tokens"]
    assert json.loads(both.stdout)["prompt_tokens"] == json.loads(whole.stdout)["prompt_tokens"]


def test_json_has_the_promised_keys_and_consistent_counts(home: Path) -> None:
    question = ("Name three primary colours.", *GREEDY, *UNENDING_FLAGS)
    answer = ask_json(home, *question, "--max-tokens", "48")
    assert answer["finish_reason"] == "length"
    assert answer["completion_tokens"] == len(answer["tokens"]) == 48
    assert answer.keys() >= {
        "text",
        "tokens",
        "finish_reason",
        "prompt_tokens",
        "completion_tokens",
        "seed",
        "profile",
        "target",
        "drafter",
        "rule",
        "timing",
        "speculation",
    }
    assert answer["timing"].keys() == {
        *("load_s", "prompt_s", "ttft_s", "answer_s", "decode_s", "tokens_per_s")
    }
    assert (answer["reasoning"], answer["reasoning_tokens"]) == (None, 0)
    counts = answer["speculation"]
    assert counts.keys() == {
        "rounds",
        "target_passes",
        "drafted",
        "accepted",
        "corrected",
        "bonus",
        "acceptance_rate",
        "tokens_per_pass",
        "accepted_per_position",
        "by_drafter",
        "draft_s",
        "verify_s",
        "overhead_s",
        "plain_tokens_per_s",
        "speedup",
    }
    assert counts["accepted"] + counts["corrected"] + counts["bonus"] == 48
    alone = ask_json(home, *question, "--max-tokens", "2", "--no-draft")
    assert (alone["drafter"], alone["speculation"]["drafted"]) == ("none", 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--top-p", "3"), "top_p"),
        (("--profile", "tinny"), "did you mean 'tiny'"),
        (("--target", "nowhere.gguf"), "nowhere.gguf"),
        (("--draft", "qwen"), "qwen"),
        (("--grammar", "root ::= ("), "grammar"),
        (("--json-schema", "{"), "schema"),
        (("--logit-bias", "x=1"), "--logit-bias x=1"),
        (
            ("--rule", "greedy", "--temperature", "1", "--target", NOWHERE, "--json"),
            "the rule 'greedy' needs temperature 0, not 1.0",
        ),
    ],
)
def test_bad_settings_are_named(home: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refusal(home, "ask", "hi", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [("--max-tokens", "0"), ("--bogus",), (), ("--logprobs", "2"), ("--raw", "--system", "x")],
)
def test_wrong_usage_is_told(home: Path, arguments: tuple[str, ...]) -> None:
    prompt = ("hi",) if arguments else ()
    assert refusal(home, "ask", *prompt, *arguments) == "wrong usage"


def test_input_that_is_not_utf_8_is_answered(home: Path) -> None:
    result = specchat(home, "ask", *GREEDY, "--max-tokens", "3", stdin=b"caf\xe9 \xff\x00?")
    assert result.returncode == 0, result.stderr.decode()


def test_case_20_a_truncated_model_is_refused(home: Path, tmp_path: Path, tiny_model: Path) -> None:
    file = tmp_path / "cut.gguf"
    with tiny_model.open("rb") as whole:
        file.write_bytes(whole.read(40_000_000))
    refused = refusal(home, "ask", "hi", "--target", str(file))
    assert "cut.gguf" in refused
    assert "truncated" in refused


@pytest.mark.skipif(sys.platform == "win32", reason="a child cannot be sent Ctrl-C there")
def test_case_19_an_interrupted_answer_keeps_what_came_and_exits_130(home: Path) -> None:
    with started(home, *STORY) as (child, output):
        first = os.read(output.fileno(), 1)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert (first + out).strip()
    assert b"Traceback" not in err


RED = ("ask", "hi", *GREEDY, "--grammar", r'root ::= "\x1b[31mred"')


def test_a_file_gets_the_answer_with_its_control_characters(home: Path) -> None:
    assert specchat(home, *RED).stdout == b"\x1b[31mred\n"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_pipe_gets_utf_8_whatever_the_locale_is(home: Path, form: tuple[str, ...]) -> None:
    arguments = ("ask", "hi", *GREEDY, "--grammar", 'root ::= "😀ế"', *form)
    result = specchat(home, *arguments)
    assert result.returncode == 0, result.stderr.decode()
    assert "😀ế" in result.stdout.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_a_model_whose_name_is_no_text_answers(
    home: Path, tmp_path: Path, tiny_model: Path
) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.gguf")
    Path(path).symlink_to(tiny_model)
    flags = ("--target", path, "--max-tokens", "2", *UNENDING_FLAGS)
    answer = ask_json(home, "hi", *flags)
    assert answer["completion_tokens"] == 2
    assert answer["target"] == path


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
def test_a_terminal_is_shown_control_characters_and_obeys_none(home: Path) -> None:
    assert on_terminal(home, *RED) == "␛[31mred\r\n"


def test_a_reader_that_goes_away_ends_the_answer_quietly(home: Path) -> None:
    with started(home, *STORY) as (child, output):
        os.read(output.fileno(), 1)
        output.close()
        _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert b"Traceback" not in err
