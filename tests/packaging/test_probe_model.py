"""The shipped probe model is what its generator writes, small, and worth a probe."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import probe_model


def test_generating_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    probe_model.write(tmp_path / "probe.gguf")
    assert (tmp_path / "probe.gguf").read_bytes() == probe_model.TARGET.read_bytes()


def test_it_is_small_and_has_every_quantization_with_fast_kernels() -> None:
    assert probe_model.TARGET.stat().st_size < 100_000
    kinds = {tensor.tensor_type for tensor in gguf.GGUFReader(probe_model.TARGET).tensors}
    assert kinds >= {Type.Q4_0, Type.Q4_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K}


def test_its_weights_are_those_of_a_sane_layer() -> None:
    for tensor in gguf.GGUFReader(probe_model.TARGET).tensors:
        weights = gguf.dequantize(tensor.data, tensor.tensor_type)
        if "norm" in tensor.name:
            assert (weights == 1).all()
            continue
        assert abs(weights.mean()) < 0.2 * weights.std(), tensor.name
        assert np.isclose(weights.std(), probe_model.SCALE, rtol=0.1), tensor.name
