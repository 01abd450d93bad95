"""Makes what is handed to others, in dist/, and shows of each that it answers by itself.

    python packaging/package.py [python] [desktop] [deb] [run]

`make package` calls this in the environment of `make chat`. Each artefact is installed or
unpacked elsewhere and started with an empty home and environment: see proof.py. The .deb and the
self-extracting file, `run`, are made from the folder of `desktop`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import bundles
import desktop_build
import needs
import python_packages
from desktop_build import DesktopBuildError
from proof import ProofError, prove

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
WORK = ROOT / "build" / "package"
DESKTOP = WORK / "desktop" / "specchat"
VERSION_FILE = ROOT / "app" / "specchat" / "version.py"
DEFAULT_MODEL = "smollm2-135m"


def main() -> int:
    makers = (package_python, package_desktop, package_deb, package_self_extracting)
    stages = dict(zip(needs.STAGES, makers, strict=True))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(stages)}")
    chosen = parser.parse_args().stages or list(stages)
    if unknown := set(chosen) - set(stages):
        parser.error(f"there is no stage {', '.join(sorted(unknown))}")
    missing = needs.missing_programs(chosen)
    WORK.mkdir(parents=True, exist_ok=True)
    DIST.mkdir(exist_ok=True)
    try:
        for stage in chosen:
            if stage not in missing:
                stages[stage]()
    except (ProofError, DesktopBuildError, OSError, subprocess.SubprocessError) as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    if missing:
        print(f"package: {needs.left_out(missing)}", file=sys.stderr)
    return int(bool(missing))


def package_python() -> None:
    """Wheel and sdist, installed with this machine's llama.cpp."""
    model = default_model()
    for old in DIST.glob("specchat-*"):
        if old.name.endswith((".whl", ".tar.gz")):
            old.unlink()
    wheel, sdist = python_packages.build(DIST)
    bin_folder = python_packages.install(wheel, llama_wheel(), WORK / "installed wheel")
    report(sdist)
    report(wheel)
    say(f"specchat {prove([str(bin_folder / 'specchat')], model)}")
    say(f"python -m specchat {prove([str(bin_folder / 'python'), '-m', 'specchat'], model)}")


def package_desktop() -> None:
    """One folder for any computer, with the model inside."""
    [wheel] = DIST.glob("specchat-*.whl")
    folder = desktop_build.build(wheel, llama_wheel("--portable"), default_model(), WORK)
    report(folder)
    if sys.platform == "linux":
        say(f"needs glibc {desktop_build.glibc_floor(folder)} or newer")
    say(f"desktop {prove([str(folder / 'specchat')])}")


def package_deb() -> None:
    deb = bundles.make_deb(DESKTOP, version(), desktop_build.glibc_floor(DESKTOP), DIST)
    report(deb)
    with bundles.installed_deb(deb) as program:
        say(f".deb {prove([str(program)])}")


def package_self_extracting() -> None:
    file = bundles.make_self_extracting(DESKTOP, version(), DIST)
    report(file)
    with bundles.self_extracted(file) as program:
        say(f"self-extracting file {prove([str(program)])}")


def version() -> str:
    """As specchat itself says it."""
    [found] = re.findall(r'__version__ = "(.+)"', VERSION_FILE.read_text("utf-8"))
    return str(found)


def default_model() -> Path:
    """The model that a new user starts with, fetched as specchat itself does."""
    command = [sys.executable, "-m", "specchat", "models", "pull", DEFAULT_MODEL, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Path(json.loads(done.stdout)[0]["path"])


def llama_wheel(*options: str) -> Path:
    """The wheel of llama-cpp-python, built now where it was not built before."""
    command = [sys.executable, str(ROOT / "packaging" / "llama" / "build.py"), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def report(artefact: Path) -> None:
    files = [artefact] if artefact.is_file() else [f for f in artefact.rglob("*") if f.is_file()]
    size = sum(file.lstat().st_size for file in files)
    say(f"{artefact.relative_to(ROOT)}: {size / 1e6:.1f} MB")


def say(line: str) -> None:
    print(f"package: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
