import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from specengine.sampling.noise import Noise, key_schedule, philox4x32

ALL_IDS = np.arange(5000, dtype=np.int32)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # the known answers published with Random123
        ("00000000 00000000 00000000 00000000", "00000000 00000000",
         "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
         "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)  # fmt: skip
def test_philox_gives_the_published_answers(counter: str, key: str, expected: str) -> None:
    words = np.array([[int(word, 16)] for word in counter.split()], dtype=np.uint64)
    low, high = (int(word, 16) for word in key.split())
    block = philox4x32(words, key_schedule(low + (high << 32)))
    assert [f"{int(word):08x}" for word in block[:, 0]] == expected.split()


def test_the_noise_is_what_its_definition_says() -> None:
    seed, position, token = 0x0123456789ABCDEF, 77, 1237

    def block(*counter: int) -> list[int]:
        words = np.array([[c] for c in counter], dtype=np.uint64)
        return [int(word) for word in philox4x32(words, key_schedule(seed))[:, 0]]

    half_words = [
        half for word in block(token // 8, position, 0, 0) for half in (word & 0xFFFF, word >> 16)
    ]
    low, high, *_ = block(token, position, 0, 1)
    v = (half_words[token % 8] + (high * 2**32 + low + 0.5) / 2**64) / 2**16
    noise = Noise(seed).exponential(position, np.array([token], dtype=np.int32))
    assert noise[0] == pytest.approx(-np.log1p(-v), rel=1e-14)


def test_a_token_has_the_same_noise_whatever_it_is_asked_with() -> None:
    noise = Noise(3)
    together = noise.exponential(9, ALL_IDS)
    some = np.array([0, 7, 8, 4999], dtype=np.int32)
    assert (noise.exponential(9, some) == together[some]).all()
    assert (noise.coarse(9, some) == noise.coarse(9, ALL_IDS)[some]).all()


def test_every_key_has_noise_of_its_own() -> None:
    drawn = [
        Noise(seed).exponential(position, ALL_IDS)
        for seed, position in [(1, 0), (1, 1), (2, 0), (1 + 2**32, 0), (2**64 - 1, 2**31)]
    ]
    for i, first in enumerate(drawn):
        for second in drawn[:i]:
            assert abs(np.corrcoef(first, second)[0, 1]) < 0.06


def test_the_variates_are_exponential() -> None:
    variates = np.concatenate([Noise(11).exponential(t, ALL_IDS) for t in range(4)])
    assert stats.kstest(variates, "expon").pvalue > 0.001


def test_coarse_bounds_lie_below_the_variates_and_near_them() -> None:
    noise = Noise(5)
    exact, coarse = noise.exponential(2, ALL_IDS), noise.coarse(2, ALL_IDS) / 2**16
    assert (coarse < exact).all()
    assert (-np.expm1(-exact) - coarse <= 2.0**-16).all()
