"""The recipes of other package managers parse, and say what the project itself says."""

from __future__ import annotations

import configparser
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

pytest.importorskip("fcntl", reason="packages are made on Linux and macOS")

import package
import recipes
from specchat.version import __version__

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "0123456789abcdef" * 4
VALUES = {
    "VERSION": __version__,
    "HOMEPAGE": "https://example.org/specchat",
    "BASE_URL": "https://example.org/files",
    "SDIST_SHA256": DIGEST,
    "ZIP_SHA256": DIGEST.upper(),
}


def project() -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    table: dict[str, Any] = content["project"]
    return table


def filled_in(template: Path) -> str:
    text = recipes.fill_in(template.read_text("utf-8"), VALUES)
    assert not re.search(r"@[A-Z]", text)
    return text


def manifest(kind: str) -> dict[str, Any]:
    contents: list[dict[str, Any]] = [yaml.safe_load(filled_in(file)) for file in recipes.WINGET]
    [found] = [content for content in contents if content["ManifestType"] == kind]
    return found


def test_a_value_that_is_missing_is_no_hole_in_the_recipe() -> None:
    assert recipes.fill_in("a @VERSION@ b@c", {"VERSION": "1"}) == "a 1 b@c"
    with pytest.raises(KeyError, match="NOTHING"):
        recipes.fill_in("@NOTHING@", VALUES)


def test_package_py_knows_the_version() -> None:
    assert package.version() == __version__


def test_homebrew_formula() -> None:
    [template] = recipes.HOMEBREW
    text = filled_in(template)
    fields = dict(re.findall(r'^  (desc|homepage|url|sha256|license) "(.+)"$', text, re.MULTILINE))
    assert fields["url"] == f"https://example.org/files/specchat-{__version__}.tar.gz"
    assert re.fullmatch(r"[0-9a-f]{64}", fields["sha256"])
    assert fields["license"] == project()["license"]
    assert len(fields["desc"]) <= 80
    assert not fields["desc"].lower().startswith(("a ", "an ", "the ", "specchat"))
    # brew takes the class from the file's name, and every block has its end.
    assert "class Specchat < Formula" in text
    opened = re.findall(r"^\s*(?:class|def|test do)\b", text, re.MULTILINE)
    assert len(opened) == len(re.findall(r"^\s*end$", text, re.MULTILINE)) == 3
    [python] = set(re.findall(r"python@(3\.\d+)", text))
    minimum = project()["requires-python"].removeprefix(">=")
    assert tuple(map(int, python.split("."))) >= tuple(map(int, minimum.split(".")))
    assert (ROOT / "packaging" / "llama" / "build.py").is_file()


def test_winget_manifests_belong_together() -> None:
    kinds = ("version", "installer", "defaultLocale")
    manifests = [manifest(kind) for kind in kinds]
    for key in ("PackageIdentifier", "PackageVersion", "ManifestVersion"):
        assert len({content[key] for content in manifests}) == 1
    version, _, locale = manifests
    assert version["PackageVersion"] == __version__
    assert version["DefaultLocale"] == locale["PackageLocale"]
    assert locale["License"] == project()["license"]
    assert len(locale["ShortDescription"]) <= 256


def test_winget_installer() -> None:
    content = manifest("installer")
    [nested] = content["NestedInstallerFiles"]
    assert nested["RelativeFilePath"] == "specchat\\specchat.exe"
    assert [nested["PortableCommandAlias"]] == content["Commands"] == list(project()["scripts"])
    [installer] = content["Installers"]
    assert re.fullmatch(r"[0-9A-F]{64}", installer["InstallerSha256"])
    assert __version__ in installer["InstallerUrl"]


def test_appimage_recipe() -> None:
    folder = ROOT / "packaging" / "appimage"
    entry = configparser.ConfigParser()
    entry.read(folder / "specchat.desktop")
    fields = entry["Desktop Entry"]
    assert fields["Exec"] == "specchat"
    assert fields["Terminal"] == "true"
    assert (folder / f"{fields['Icon']}.svg").is_file()


@pytest.mark.parametrize("script", ["appimage/build.sh", "desktop/install.sh"])
def test_shell_scripts_parse(script: str) -> None:
    subprocess.run(["sh", "-n", str(ROOT / "packaging" / script)], check=True)
