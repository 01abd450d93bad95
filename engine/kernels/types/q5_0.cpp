// Q5_0: weight = scale * (five bits - 16). A run's fifth register has the fifth bits: bit s of
// byte 4 * lane + t is that of value 4s + t, of step s.
#include "../runs.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q5_0 : RunType<5, 16, false> {
    struct Block {
        uint8_t scale[2];
        uint8_t fifth[4];
        uint8_t halves[16];
    };

    static void put(const Tile<Block>& tile, uint8_t* strip, int t) {
        put_halves(tile, strip + 2 * kTile * t, &Block::scale);
        uint8_t* run = strip + kHeader + t * kRunBytes;
        put_run(tile, run);
        for (int lane = 0; lane < kTile; lane++) {
            const uint32_t bits = in_order_of_steps(tile[lane]->fifth);
            memcpy(run + 4 * simd::kRegister + 4 * lane, &bits, sizeof bits);
        }
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        unpack_five_bits<I>(run, first, second);
    }

  private:
    // Bit 8t + s is the fifth bit of value 4s + t.
    static SPECCHAT_INLINE uint32_t in_order_of_steps(const uint8_t (&fifth)[4]) {
        // Each byte of the file to where its bits are wanted, and there the one bit that is.
        const __m256i byte = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3));
        const __m256i bit = _mm256_setr_epi64x(0x1001100110011001, 0x2002200220022002,
                                               0x4004400440044004, 0x8008800880088008);
        const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(simd::four_bytes(fifth)), byte);
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        return static_cast<uint32_t>(_mm256_movemask_epi8(set));
    }
};

}  // namespace

const Kernel q5_0 = kernel_of<Runs, Q5_0>();

}  // namespace specchat

#endif
