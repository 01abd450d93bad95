"""Writes the lock files from pyproject.toml: `make lock`, or `make lock ARGS=--upgrade`.

llama-cpp-python is left out: packaging/llama/build.py builds it from an archive whose hash is
pinned in packaging/llama/source.txt.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = "uv==0.13.9"
LOCKS = {
    "requirements.lock": ["build"],
    "requirements-dev.lock": ["build", "dev"],
    "requirements-clients.lock": ["clients"],
    "requirements-desktop.lock": ["desktop"],
}


def compile_command(uv: Path, lock: str, groups: list[str], extra: list[str]) -> list[str]:
    constraint = [] if lock == "requirements.lock" else ["--constraint", "requirements.lock"]
    return [
        *(str(uv), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *("--generate-hashes", "--no-annotate", "--custom-compile-command", "make lock"),
        *("--no-emit-package", "llama-cpp-python"),
        *(argument for group in groups for argument in ("--group", group)),
        *(*constraint, *extra, "--output-file", lock, "pyproject.toml"),
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        bin_folder = Path(folder, "Scripts" if sys.platform == "win32" else "bin")
        subprocess.run([bin_folder / "python", "-m", "pip", "install", "--quiet", UV], check=True)
        for lock, groups in LOCKS.items():
            command = compile_command(bin_folder / "uv", lock, groups, sys.argv[1:])
            subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
