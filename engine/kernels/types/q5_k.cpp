// Q5_K: weight = scale * (six bits * five bits) - scale of minima * six bits. The file has bit j of
// 32 bytes for the fifth bits of run j; a run's fifth register has them as Q5_0's.
#include "../blocks.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q5_K : BlockType<5> {
    struct Block {
        uint8_t scale[2], scale_of_minima[2];
        uint8_t six_bits[12];
        uint8_t fifth[32];
        uint8_t halves[128];
    };

    static void put(const Tile<Block>& tile, uint8_t* strip, int t) {
        put_scales(tile, strip, t);
        put_runs(tile, strip, t);
        uint8_t* fifth = strip + kHeader + t * kRunBytes + 4 * simd::kRegister;
        for (int lane = 0; lane < kTile; lane++) put_fifth(*tile[lane], fifth + 4 * lane);
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        unpack_five_bits<I>(run, first, second);
    }

  private:
    // A word for each run: its bit 8t + s is the fifth bit of value 4s + t.
    static SPECCHAT_INLINE void put_fifth(const Block& block, uint8_t* words) {
        // Byte 4s + t of the file to 8t + s, first within 16 bytes; then bit after bit of each.
        const __m256i within = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        const __m256i across = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        const auto* file = reinterpret_cast<const __m256i*>(block.fifth);
        __m256i bytes = _mm256_shuffle_epi8(_mm256_loadu_si256(file), within);
        bytes = _mm256_permutevar8x32_epi32(bytes, across);
        for (int run = 7; run >= 0; run--, bytes = _mm256_add_epi8(bytes, bytes)) {
            const auto bits = static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
            memcpy(words + 2 * run * kRunBytes, &bits, sizeof bits);
        }
    }
};

}  // namespace

const Kernel q5_k = kernel_of<Blocks, Q5_K>();

}  // namespace specchat

#endif
