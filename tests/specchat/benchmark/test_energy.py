"""Energy counters of Linux, from a folder that looks like theirs."""

from pathlib import Path

import pytest

from specchat.benchmark.energy import EnergyMeter


def package(folder: Path, name: str, microjoules: int, limit: int = 1000) -> Path:
    path = folder / name
    path.mkdir()
    (path / "max_energy_range_uj").write_text(f"{limit}\n")
    (path / "energy_uj").write_text(f"{microjoules}\n")
    return path / "energy_uj"


def test_packages_are_added_and_counters_may_start_again(tmp_path: Path) -> None:
    first, second = package(tmp_path, "intel-rapl:0", 100), package(tmp_path, "intel-rapl:1", 900)
    meter = EnergyMeter(tmp_path)
    before = meter.read()
    first.write_text("150")
    second.write_text("20")
    assert meter.joules(before, meter.read()) == pytest.approx((50 + 121) / 1e6)


def test_parts_of_a_package_are_not_counted_twice(tmp_path: Path) -> None:
    package(tmp_path, "intel-rapl:0", 5)
    package(tmp_path, "intel-rapl:0:0", 3)
    assert EnergyMeter(tmp_path).read() == [5]


def test_where_the_platform_does_not_tell_it_is_none(tmp_path: Path) -> None:
    meter = EnergyMeter(tmp_path / "none")
    assert meter.read() is None
    assert meter.joules(None, None) is None
    counter = package(tmp_path, "intel-rapl:0", 5)
    meter = EnergyMeter(tmp_path)
    counter.unlink()
    assert meter.read() is None
