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

    static void put(const Block& block, uint8_t* strip, int output) {
        memcpy(strip + 2 * output, block.scale, 2);
        uint8_t* run = strip + kHeader + output / kTile * kRunBytes;
        for (int step = 0; step < 8; step++) {
            put_four(run, step, output % kTile, four(block.bytes, step) ^ 0x80808080);
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
