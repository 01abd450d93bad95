"""Which CPU this is, from what Linux tells."""

from __future__ import annotations

from specengine.llama.cpu import parse_cpuinfo, this_cpu

XEON = """processor\t: 0
model name\t: Intel(R) Xeon(R) Processor
flags\t\t: fpu avx2 amx_tile amx_int8

processor\t: 1
model name\t: something else
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU part\t: 0xd4f\n"


def test_the_first_processor_counts() -> None:
    cpu = parse_cpuinfo(XEON)
    assert cpu.model == "Intel(R) Xeon(R) Processor"
    assert cpu.features == {"fpu", "avx2", "amx_tile", "amx_int8"}
    assert cpu.announces_amx


def test_arm_has_other_words_for_it() -> None:
    cpu = parse_cpuinfo(ARM)
    assert cpu.model == "0xd4f"
    assert cpu.features == {"fp", "asimd", "sve"}
    assert not cpu.announces_amx


def test_this_machine_has_a_name() -> None:
    assert this_cpu().model
