// Q8_0: weight = scale * signed byte. The strip has them with 128 added, as unsigned bytes.
#include "../runs.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q8_0 : RunType<8, 128, false> {
    static constexpr bool kWide = true;

    struct Block {
        uint8_t scale[2];
        uint8_t bytes[32];
    };

    static void put(const Tile<Block>& tile, uint8_t* strip, int t) {
        put_halves(tile, strip + 2 * kTile * t, &Block::scale);
        uint8_t* run = strip + kHeader + t * kRunBytes;
        for (int half = 0; half < 2; half++, run += 4 * simd::kRegister) {
            put_registers(tile, run, simd::kRegister, [half](const Block& block) {
                return _mm_xor_si128(load_words(block.bytes + 16 * half), _mm_set1_epi8(-128));
            });
        }
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        const uint8_t* here = run + 2 * I * simd::kRegister;
        simd::fetch_ahead(here);
        simd::fetch_ahead(here + simd::kRegister);
        first = simd::load(here);
        second = simd::load(here + simd::kRegister);
    }
};

}  // namespace

const Kernel q8_0 = kernel_of<Runs, Q8_0>();

}  // namespace specchat

#endif
