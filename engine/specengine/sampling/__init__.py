"""From logits to the distribution a token is drawn from, in llama.cpp's order and meanings."""

from specengine.sampling.params import SamplingParams
from specengine.sampling.transforms import Transforms

__all__ = ["SamplingParams", "Transforms"]
