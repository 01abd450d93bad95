"""Makes .venv ready to run specchat from this checkout, and does nothing where it is.

    python packaging/setup_env.py          what the program needs
    python packaging/setup_env.py --dev    and what its tests and linters need

The Makefile calls this; without make, run it and then .venv/bin/specchat (on Windows
.venv\\Scripts\\specchat). It needs only the standard library and talks on standard error alone.
"""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
if sys.version_info < (3, 11):  # noqa: UP036, this file is what tells so
    sys.exit(
        f"specchat needs Python 3.11 or newer and this is {VERSION}; "
        "name another one: make PYTHON=python3.12 chat"
    )

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCKS = {"runtime": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}
BUILD = ROOT / "packaging" / "llama" / "build.py"
KERNELS = ROOT / "engine" / "kernels"

# A change to any of these means that an environment made earlier is out of date.
INPUTS = (
    ROOT / "pyproject.toml",
    Path(__file__).resolve(),
    *sorted(path for path in BUILD.parent.iterdir() if path.is_file()),
    *sorted(path for path in KERNELS.rglob("*") if path.is_file()),
)
SWITCHES = ("GPU", "CMAKE_ARGS", "CC", "CXX", "CFLAGS", "CXXFLAGS")


class SetupError(Exception):
    """A step failed; the message says what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dev", action="store_true", help="what tests and linters need, too")
    kind = "dev" if parser.parse_args().dev else "runtime"
    if is_ready(kind):
        return 0
    try:
        set_up(kind)
    except (SetupError, OSError) as error:
        print(f"specchat: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def stamp(kind: str) -> Path:
    return VENV / f".ready-{kind}"


def fingerprint(kind: str) -> str:
    """What an environment of this kind is made from, the checkout's own place included: scripts
    in a virtual environment carry absolute paths, so one that was moved has to be made again.
    """
    files = [*INPUTS, LOCKS["runtime"], *([LOCKS["dev"]] if kind == "dev" else [])]
    digest = hashlib.sha256(repr((str(ROOT), sys.version, sys.base_prefix)).encode())
    digest.update(repr([os.environ.get(name, "") for name in SWITCHES]).encode())
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def is_ready(kind: str) -> bool:
    try:
        return stamp(kind).read_text() == fingerprint(kind)
    except FileNotFoundError:
        return False


def set_up(kind: str) -> None:
    """All steps, in an order in which the stamp is gone before the first and back after the last.

    The environment of the tests contains the program's, so it has both stamps.
    """
    kinds = ["runtime", "dev"] if kind == "dev" else ["runtime"]
    check_build()
    for each in LOCKS:
        stamp(each).unlink(missing_ok=True)
    say(1, f"environment {VENV.name}, Python {sys.version.split()[0]}")
    make_venv()
    lock = LOCKS[kind]
    say(2, f"packages of {lock.name}")
    pip("--require-hashes", "--requirement", str(lock))
    say(3, "llama.cpp, built for this machine (minutes at the first time)")
    pip("--force-reinstall", build_wheel())
    say(4, "specchat")
    pip("--no-build-isolation", "--editable", str(ROOT))
    for each in kinds:
        stamp(each).write_text(fingerprint(each))


def say(step: int, what: str) -> None:
    print(f"specchat: [{step}/4] {what}", file=sys.stderr, flush=True)


def venv_python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_venv() -> None:
    """A virtual environment of this Python with pip; one that works is kept."""
    check = f"import pip, sys; sys.exit(sys.version != {sys.version!r})"
    if venv_python().exists() and run(venv_python(), "-c", check, quiet=True):
        return
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(f"Python's venv module is not whole; install it with: {venv_remedy()}")
    if not run(sys.executable, "-m", "venv", "--clear", str(VENV)):
        raise SetupError(f"{VENV} could not be made: is the disk full, the folder read-only?")


def venv_remedy() -> str:
    if shutil.which("apt-get"):
        return f"sudo apt-get install python{VERSION}-venv"
    return f"a Python {VERSION} that has ensurepip, for instance the one of python.org"


def pip(*arguments: str) -> None:
    options = ("-qq", "--no-input", "--disable-pip-version-check", "--no-deps")
    if not run(venv_python(), "-m", "pip", "install", *options, *arguments):
        raise SetupError("pip failed, see above; mend that (often the network) and run this again")


def check_build() -> None:
    """Whether all is here that llama.cpp's build needs: better known now than minutes later."""
    done = subprocess.run(
        [sys.executable, str(BUILD), "--check"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SetupError(done.stderr.strip() or "llama.cpp cannot be built here")


def build_wheel() -> str:
    """The path of the llama-cpp-python wheel; its build tells about itself."""
    done = subprocess.run(
        [str(venv_python()), str(BUILD)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SetupError("llama.cpp is not built; the lines above say why")
    return done.stdout.strip()


def run(*command: object, quiet: bool = False) -> bool:
    """Whether a command succeeds. Its words go to standard error, which is not the answer's."""
    output = subprocess.DEVNULL if quiet else sys.stderr
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        check=False,
    )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
