"""The wheel is built once for all that it depends on, and never half."""

from __future__ import annotations

import io
import platform
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import build
import compiler
from build import BuildError
from compiler import Compiler
from progress import Progress

AMX: dict[bool, dict[str, str]] = {True: {"__AMX_TILE__": "1"}, False: {}}
GCC = Compiler("cc", "c++", "gcc 12.2\n__AVX2__ 1", {})


def key(compilers: Compiler = GCC, gpu: str = "", **environ: str) -> str:
    return build.wheel_key(compilers, gpu, environ)


def test_key_names_version_and_gpu() -> None:
    assert key().startswith("0.3.36-cpu-")
    assert key(gpu="cuda").startswith("0.3.36-cuda-")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(key(Compiler("cc", "c++", "gcc 13.3\n__AVX2__ 1", {})), id="compiler"),
        pytest.param(key(Compiler("cc", "c++", "gcc 12.2\n__AVX512F__ 1", {})), id="CPU"),
        pytest.param(key(CFLAGS="-O2"), id="CFLAGS"),
        pytest.param(key(CMAKE_ARGS="-DGGML_NATIVE=OFF"), id="CMAKE_ARGS"),
        pytest.param(
            key(
                Compiler(
                    *("cc", "c++", GCC.identity),
                    {"__GNUC__": "12", "__GNUC_MINOR__": "2", "__AMX_TILE__": "1"},
                )
            ),
            id="AMX header",
        ),
    ],
)
def test_key_differs_by_what_changes_the_wheel(other: str) -> None:
    assert other != key()


def test_key_is_the_same_for_what_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = key()
    assert key(PATH="/elsewhere", HOME="/home/other") == before
    for name in ("SOURCE", "TRIM", "AMX_HEADER"):
        original: Path = getattr(build, name)
        copy = tmp_path / original.name
        copy.write_bytes(original.read_bytes())
        monkeypatch.setattr(build, name, copy)
    monkeypatch.setattr(build, "KERNELS", shutil.copytree(build.KERNELS, tmp_path / "kernels"))
    assert key() == before, "another checkout with the same files"
    build.TRIM.write_text(build.TRIM.read_text() + "# changed\n")
    assert key() != before, "a changed file"


@pytest.mark.parametrize("name", ["product.cpp", "runs.h", "kernels.cmake", "types/q4_k.cpp"])
def test_key_differs_by_each_file_of_the_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    before = key()
    monkeypatch.setattr(build, "KERNELS", shutil.copytree(build.KERNELS, tmp_path / "kernels"))
    file = build.KERNELS / name
    file.write_text(file.read_text() + "\n")
    assert key() != before


def test_cmake_arguments_survive_spaces_and_a_persons_own_come_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "TRIM", Path("/a checkout/trim.cmake"))
    environ = build.build_environment(GCC, "vulkan", {"CMAKE_ARGS": "-DGGML_VULKAN=OFF", "X": "1"})
    assert shlex.split(environ["CMAKE_ARGS"]) == [
        "-DCMAKE_PROJECT_llama_cpp_INCLUDE=/a checkout/trim.cmake",
        "-DLLAVA_BUILD=OFF",
        "-DGGML_VULKAN=ON",
        "-DGGML_VULKAN=OFF",
    ]
    assert (environ["CC"], environ["CXX"], environ["X"]) == ("cc", "c++", "1")


@pytest.mark.parametrize(
    ("gpu", "define"),
    [
        ("cuda", "GGML_CUDA"),
        ("vulkan", "GGML_VULKAN"),
        ("metal", "GGML_METAL"),
        ("rocm", "GGML_HIP"),
        ("sycl", "GGML_SYCL"),
    ],
)
def test_each_gpu_turns_on_its_backend(gpu: str, define: str) -> None:
    assert build.cmake_defines(GCC, gpu)[define] == "ON"


def test_a_portable_build_takes_nothing_from_the_cpu_that_compiles_it() -> None:
    defines = build.cmake_defines(GCC, "", portable=True)
    assert defines["GGML_NATIVE"] == "OFF"
    assert {name for name, value in defines.items() if value == "ON"} == {
        *("GGML_BACKEND_DL", "GGML_CPU_ALL_VARIANTS")
    }
    assert defines["CMAKE_INSTALL_BINDIR"] == "llama_cpp/lib", "where the program looks for them"
    assert build.wheel_key(GCC, "", {}, portable=True) != key()


@pytest.mark.parametrize(
    ("gcc", "cpu_has_amx", "portable", "given"),
    [
        ("12", True, False, True),
        ("12", False, False, False),
        ("12", False, True, True),
        ("14", True, True, False),
    ],
)
def test_the_amx_header_is_for_kernels_that_the_compiler_gets_wrong(
    gcc: str, cpu_has_amx: bool, portable: bool, given: bool
) -> None:
    """A portable build has kernels with AMX, whatever CPU compiles it."""
    macros = {"__GNUC__": gcc, "__GNUC_MINOR__": "2", **AMX[cpu_has_amx]}
    defines = build.cmake_defines(Compiler("cc", "c++", "", macros), "", portable)
    assert ("SPECCHAT_AMX_HEADER" in defines) is given
    if given:
        assert "ldtilecfg" in Path(defines["SPECCHAT_AMX_HEADER"]).read_text()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel cache in a folder with a space, and compilers that need not exist."""
    monkeypatch.setattr(compiler, "find", lambda *_: GCC)
    monkeypatch.setattr(compiler, "remedy", lambda: "sudo install it")
    return tmp_path / "wheel cache"


def use_pip(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Replace pip by a Python script that gets the wheel folder as its argument."""
    start = "import pathlib, sys\nfolder = pathlib.Path(sys.argv[1])\n"
    monkeypatch.setattr(
        build, "pip_command", lambda folder: [sys.executable, "-c", start + script, str(folder)]
    )


def obtain(cache: Path, gpu: str = "") -> Path:
    return build.obtain_wheel(gpu, {"SPECCHAT_WHEEL_CACHE": str(cache)}, Progress(io.StringIO()))


def test_a_wheel_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_pip(monkeypatch, "(folder / 'llama.whl').write_text('built')")
    wheel = obtain(cache)
    assert wheel.parent.parent == cache
    assert wheel.read_text() == "built"
    use_pip(monkeypatch, "sys.exit('built again')")
    assert obtain(cache) == wheel
    with pytest.raises(BuildError):
        obtain(cache, gpu="cuda")


def test_a_build_that_was_cut_off_is_not_taken_for_a_wheel(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_pip(monkeypatch, "(folder / 'llama.whl').write_text('ha'); sys.exit(1)")
    with pytest.raises(BuildError):
        obtain(cache)
    assert [path.name for path in cache.iterdir()] == ["last-build.log"]
    use_pip(monkeypatch, "(folder / 'llama.whl').write_text('whole')")
    assert obtain(cache).read_text() == "whole"


def test_a_failure_shows_the_compilers_words_and_says_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_pip(
        monkeypatch,
        "print('*** Configuring CMake...')\n"
        "for i in range(100): print(f'[{i}/83] g++')\n"
        "print('ggml.c:7: fatal error: immintrin.h: No such file')\n"
        "sys.exit(1)\n",
    )
    with pytest.raises(BuildError) as caught:
        obtain(cache)
    first, last = str(caught.value).splitlines()
    assert first == "  ggml.c:7: fatal error: immintrin.h: No such file"
    assert "sudo install it" in last
    assert str(cache / "last-build.log") in last
    assert (cache / "last-build.log").read_text().count("g++") == 100


@pytest.mark.parametrize(
    ("output", "gpu", "advice"),
    [
        ("ERROR: Could not find a version\n", "", "check the network connection and try again"),
        (
            "*** Configuring CMake\nCMake Error: no nvcc\n",
            "cuda",
            "GPU=cuda needs the whole of NVIDIA's CUDA toolkit: ",
        ),
    ],
)
def test_advice_fits_the_cause(output: str, gpu: str, advice: str) -> None:
    first, *_, last = str(build.failure("all is well\n" + output, gpu, Path("log"))).splitlines()
    assert advice in last
    assert first.strip().startswith(("ERROR", "CMake Error"))


def test_cache_lies_in_the_platforms_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert build.cache_folder({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/specchat/wheels")
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    assert build.cache_folder({"LOCALAPPDATA": "/local"}) == Path("/local/specchat/wheels")
