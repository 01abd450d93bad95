"""`import specengine` is for other programs too: it must stay free of the app and its screen."""

import subprocess
import sys

import pytest

FOREIGN = ("textual", "rich", "httpx", "click", "specchat", "starlette", "uvicorn")


@pytest.mark.parametrize("module", ["specengine", "specengine.load.pair", "specengine.llama.probe"])
def test_the_engine_loads_neither_the_app_nor_llama_cpp(module: str) -> None:
    code = (
        f"import sys, {module}; print([m for m in {(*FOREIGN, 'llama_cpp')!r} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "[]"


def test_the_screen_loads_no_llama_cpp() -> None:
    code = "import sys, specchat.chat; print('llama_cpp' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "False"
