"""Fills in the recipes of other package managers, once the artefacts have an address.

    python packaging/recipes.py --homepage URL --base-url URL [--zip FILE] FOLDER

writes the Homebrew formula, and with the zipped desktop build of Windows the winget manifests, to
FOLDER. BASE_URL is where the files of dist/ can be fetched.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from package import DIST, ROOT, version

HOMEBREW = [ROOT / "packaging" / "homebrew" / "specchat.rb"]
WINGET = sorted((ROOT / "packaging" / "winget").glob("*.yaml"))


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """`template` with each @NAME@ replaced. Raises KeyError where a value is missing."""
    return re.sub(r"@([A-Z0-9_]+)@", lambda match: values[match[1]], template)


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--homepage", required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--zip", type=Path, help="the desktop build of Windows")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    sdist = DIST / f"specchat-{version()}.tar.gz"
    values = {
        "VERSION": version(),
        "HOMEPAGE": options.homepage,
        "BASE_URL": options.base_url.rstrip("/"),
        "SDIST_SHA256": sha256(sdist),
    }
    templates = list(HOMEBREW)
    if options.zip:
        values["ZIP_SHA256"] = sha256(options.zip).upper()
        templates += WINGET
    options.folder.mkdir(parents=True, exist_ok=True)
    for template in templates:
        text = fill_in(template.read_text("utf-8"), values)
        (options.folder / template.name).write_text(text, "utf-8")
        print(options.folder / template.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
