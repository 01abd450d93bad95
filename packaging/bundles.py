"""A Debian package and a self-extracting file, made from the folder of the desktop build (Linux).

Each is made here, and installed by its own means into a folder, so that neither root rights nor
this machine's package database are touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from python_packages import ROOT

SUMMARY = "chat with local models in the terminal, answered faster than by the model alone"
INSTALLER = ROOT / "packaging" / "desktop" / "install.sh"
SYSTEM = {"PATH": os.defpath + ":/usr/sbin:/sbin"}


def control(
    version: str,
    architecture: str,
    glibc: str,
    kilobytes: int,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """What the .deb says of itself. Its maintainer is whoever makes it, as Debian's tools are told:
    DEBFULLNAME and DEBEMAIL; else the project's name, which has no address.
    """
    name, address = environ.get("DEBFULLNAME") or "specchat", environ.get("DEBEMAIL")
    fields = {
        "Package": "specchat",
        "Version": version,
        "Architecture": architecture,
        "Maintainer": f"{name} <{address}>" if address else name,
        "Installed-Size": kilobytes,
        "Depends": f"libc6 (>= {glibc})",
        "Section": "utils",
        "Priority": "optional",
        "Description": f"{SUMMARY}\n"
        " Something cheap drafts the next few words, and the model that you chose verifies\n"
        " them in one pass: the same text, sooner. A small model comes along.",
    }
    return "".join(f"{field}: {value}\n" for field, value in fields.items())


def make_deb(folder: Path, version: str, glibc: str, dist: Path) -> Path:
    """A .deb with `folder` as /usr/lib/specchat. It needs dpkg-deb."""
    architecture = _architecture()
    deb = dist / f"specchat_{version}_{architecture}.deb"
    with TemporaryDirectory() as temporary:
        root = Path(temporary, "root")
        shutil.copytree(folder, root / "usr/lib/specchat", symlinks=True)
        (root / "usr/bin").mkdir()
        (root / "usr/bin/specchat").symlink_to("../lib/specchat/specchat")
        documents = root / "usr/share/doc/specchat"
        documents.mkdir(parents=True)
        shutil.copy(ROOT / "LICENSE", documents / "copyright")
        kilobytes = sum(file.lstat().st_size for file in root.rglob("*")) // 1024
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(control(version, architecture, glibc, kilobytes))
        for path in (root, *root.rglob("*")):  # whatever the umask here
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        # Half of it is a model, which nothing makes smaller: more effort would gain little.
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(root), str(deb))
    return deb


@contextmanager
def installed_deb(deb: Path) -> Iterator[Path]:
    """The program as dpkg installs it, in a system of its own; removed again by dpkg."""
    with TemporaryDirectory(prefix="specchat deb ") as temporary:
        root = Path(temporary)
        database = root / "var/lib/dpkg"
        for name in ("updates", "info"):
            (database / name).mkdir(parents=True)
        # The package depends on libc6 alone, so that is all the other system has in its books.
        (database / "status").write_text(_output("dpkg-query", "--status", "libc6") + "\n")
        (database / f"info/libc6:{_architecture()}.list").touch()
        dpkg = ("dpkg", f"--root={root}", "--force-not-root")
        _run(*dpkg, "--install", str(deb))
        yield root / "usr/bin/specchat"
        _run(*dpkg, "--purge", "specchat")
        if left := [str(path) for path in root.rglob("*specchat*")]:
            raise OSError(f"dpkg leaves behind: {', '.join(left)}")


def make_self_extracting(folder: Path, version: str, dist: Path) -> Path:
    """A shell script with `folder` inside that installs it for one person. It needs makeself."""
    file = dist / f"specchat-{version}-linux-{os.uname().machine}.run"
    with TemporaryDirectory() as temporary:
        content = Path(temporary, "content")
        content.mkdir()
        shutil.copytree(folder, content / "specchat", symlinks=True)
        shutil.copy(INSTALLER, content)
        _run(
            *("makeself", "--quiet", "--nox11", "--nomd5", "--sha256", "--complevel", "6"),
            *(str(content), str(file), f"specchat {version}", "sh", f"./{INSTALLER.name}"),
        )
    return file


@contextmanager
def self_extracted(file: Path) -> Iterator[Path]:
    """The program as `file` installs it below a home that is new."""
    with TemporaryDirectory(prefix="specchat run ") as temporary:
        home = {"HOME": temporary, **SYSTEM}
        subprocess.run(
            ["/bin/sh", str(file), "--quiet"],
            env=home,
            stdout=subprocess.DEVNULL,
            cwd=temporary,
            check=True,
        )
        yield Path(temporary, ".local/bin/specchat")


def _architecture() -> str:
    return _output("dpkg", "--print-architecture")


def _run(*command: str) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
