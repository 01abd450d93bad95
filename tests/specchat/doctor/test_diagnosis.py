"""Each check tells what it is there to tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specchat.config.installation import Installer, rebuild_command
from specchat.doctor import diagnosis
from specchat.doctor.check import Check
from specengine.llama import huge_pages
from specengine.llama.cpu import Cpu
from specengine.llama.placement import Device
from specengine.llama.probe import ProbeResult

WORKS = ProbeResult(works=True, use_extra_bufts=True, finding="decodes")
SLOW = ProbeResult(works=True, use_extra_bufts=False, finding="slower", remedy="engine's")
FAILS = ProbeResult(works=False, use_extra_bufts=False, finding="dies", remedy="engine's")
AMX = Cpu("Xeon", frozenset({"amx_tile"}))


@pytest.fixture(autouse=True)
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, pip as the installer, and a CPU with AMX."""
    monkeypatch.setattr(diagnosis, "installer", lambda: Installer.PIP)
    monkeypatch.setattr(diagnosis, "this_cpu", lambda: AMX)
    return own_home


@pytest.mark.parametrize(
    ("result", "status", "remedy"),
    [
        (WORKS, "ok", None),
        (FAILS, "fail", rebuild_command(Installer.PIP)),
        (
            SLOW,
            "warn",
            rebuild_command(
                Installer.PIP,
                {"CFLAGS": diagnosis.WITHOUT_AMX, "CXXFLAGS": diagnosis.WITHOUT_AMX},
            ),
        ),
    ],
)
def test_decoding(result: ProbeResult, status: str, remedy: str | None) -> None:
    check = diagnosis.check_probe(result)
    assert (check.status, check.detail, check.remedy) == (status, result.finding, remedy)


@pytest.mark.parametrize(
    ("cpu", "result", "info", "status", "says"),
    [
        (AMX, WORKS, "AVX2 AMX_INT8", "ok", "announced and used"),
        (AMX, WORKS, "AVX2", "warn", "announced and not used by llama.cpp"),
        (AMX, SLOW, "AMX_INT8", "ok", "announced and not used by llama.cpp"),
        (Cpu("x"), WORKS, "", "ok", "not announced by the CPU and not used by llama.cpp"),
    ],
)
def test_amx(
    monkeypatch: pytest.MonkeyPatch,
    cpu: Cpu,
    result: ProbeResult,
    info: str,
    status: str,
    says: str,
) -> None:
    monkeypatch.setattr(diagnosis, "this_cpu", lambda: cpu)
    monkeypatch.setattr(diagnosis, "system_info", lambda: info)
    check = diagnosis.check_amx(result)
    assert check.status == status
    assert check.detail == f"AMX is {says}; llama.cpp was built for {info}"


@pytest.mark.parametrize(
    ("asks", "check"),
    [("system_info", diagnosis.check_amx), ("devices", diagnosis.check_gpu)],
)
def test_a_library_that_does_not_work_is_not_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asks: str,
    check: Callable[[ProbeResult], Check],
) -> None:
    def load() -> None:
        raise AssertionError("loading it may end the process")

    (tmp_path / "libggml-cuda.so").touch()
    monkeypatch.setattr(diagnosis, "library_folder", lambda: tmp_path)
    monkeypatch.setattr(diagnosis, asks, load)
    assert check(FAILS).status == "ok"


@pytest.mark.parametrize(
    ("layouts", "switch", "says"),
    [
        (["CPU_SPECCHAT", "CPU_REPACK"], "", "specchat's own: "),
        (["CPU_REPACK"], "off", "llama.cpp's, as SPECCHAT_KERNELS=off says"),
        ([], "", "llama.cpp's: "),
    ],
)
def test_whose_kernels_compute_is_told(
    monkeypatch: pytest.MonkeyPatch, layouts: list[str], switch: str, says: str
) -> None:
    monkeypatch.setattr(diagnosis, "packed_layouts", lambda llama: layouts)
    monkeypatch.setenv("SPECCHAT_KERNELS", switch)
    assert diagnosis.check_kernels(WORKS).detail.startswith(says)
    assert "unknown" in diagnosis.check_kernels(FAILS).detail


@pytest.mark.parametrize(
    ("variables", "status"),
    [
        ({}, "ok"),
        ({"OMP_WAIT_POLICY": "passive"}, "ok"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "warn"),
        ({"GOMP_SPINCOUNT": "300000000"}, "warn"),
        ({"GOMP_SPINCOUNT": "infinite"}, "warn"),
        ({"GOMP_SPINCOUNT": "1000", "OMP_WAIT_POLICY": "active"}, "ok"),
    ],
)
def test_threads_that_spin_are_told(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], status: str
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "GGML_NO_BACKTRACE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert diagnosis.check_threads().status == status


@pytest.mark.parametrize(
    ("mode", "status"), [("madvise", "ok"), ("always", "ok"), ("never", "warn"), (None, "ok")]
)
def test_a_kernel_set_to_give_no_huge_pages_is_told(
    monkeypatch: pytest.MonkeyPatch, mode: str | None, status: str
) -> None:
    monkeypatch.setattr(huge_pages, "mode", lambda: mode)
    check = diagnosis.check_huge_pages()
    assert check.status == status
    assert (check.remedy is not None) == (status == "warn")


def test_another_version_of_the_bindings_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnosis.check_library().status == "ok"
    monkeypatch.setattr(diagnosis, "version", lambda name: "0.3.1")
    check = diagnosis.check_library()
    assert check.status == "fail"
    assert "0.3.1; 0.3.36 is needed" in check.detail
    assert check.remedy == rebuild_command(Installer.PIP)


def test_little_disk_and_memory_are_told(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(diagnosis, "LITTLE_DISK", 10**20)
    monkeypatch.setattr(diagnosis, "LITTLE_MEMORY", 10**20)
    disk, memory = diagnosis.check_disk(), diagnosis.check_memory()
    assert (disk.status, memory.status) == ("warn", "warn")
    assert str(home / "data" / "models") in disk.detail


def test_broken_settings_fail_and_name_the_place(home: Path) -> None:
    assert diagnosis.check_settings().status == "ok"
    file = home / "config" / "settings.toml"
    file.parent.mkdir()
    file.write_text("profil = 'tiny'\n")
    check = diagnosis.check_settings()
    assert check.status == "fail"
    assert "did you mean 'profile'?" in check.detail
    assert check.remedy == f"edit {file}"


def test_an_unknown_profile_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_PROFILE", "tinny")
    check = diagnosis.check_settings()
    assert check.status == "fail"
    assert "tinny" in check.detail


def test_a_folder_that_cannot_be_written_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnosis.check_folders().status == "ok"
    (home / "file").write_text("")
    monkeypatch.setenv("SPECCHAT_HOME", str(home / "file"))
    check = diagnosis.check_folders()
    assert check.status == "fail"
    assert str(home / "file") in check.detail


def test_a_build_for_cpus_uses_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "library_folder", lambda: tmp_path)
    (tmp_path / "libggml-cpu-haswell.so").touch()
    check = diagnosis.check_gpu(WORKS)
    assert (check.status, check.remedy) == ("ok", None)
    assert "built for CPUs" in check.detail


@pytest.mark.parametrize("library", ["libggml-cuda.so", "ggml-vulkan.dll", "libggml-metal.dylib"])
def test_a_gpu_build_names_its_gpus_and_what_is_placed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    (tmp_path / library).touch()
    gpu = Device("X0", "the GPU", free=6_000_000_000, total=8_000_000_000)
    monkeypatch.setattr(diagnosis, "library_folder", lambda: tmp_path)
    monkeypatch.setattr(diagnosis, "devices", lambda: [gpu])
    monkeypatch.setattr(diagnosis, "placement_of_profile", lambda: "target all on the GPU: 5.1 GB")
    check = diagnosis.check_gpu(WORKS)
    assert check.status == "ok"
    assert check.detail == "the GPU, 6.0 GB of 8.0 GB free; target all on the GPU: 5.1 GB"
    monkeypatch.setattr(diagnosis, "devices", list)
    check = diagnosis.check_gpu(WORKS)
    assert check.status == "warn"
    assert "finds no such GPU" in check.detail
    assert "driver" in (check.remedy or "")
