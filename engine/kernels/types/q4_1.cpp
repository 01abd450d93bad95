// Q4_1: weight = scale * four bits + minimum.
#include "../runs.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q4_1 : RunType<4, 0, true> {
    struct Block {
        uint8_t scale[2], minimum[2];
        uint8_t halves[16];
    };

    static void put(const Block& block, uint8_t* strip, int output) {
        memcpy(strip + 2 * output, block.scale, 2);
        memcpy(strip + kHalves + 2 * output, block.minimum, 2);
        put_run(strip + kHeader + output / kTile * kRunBytes, output % kTile, block.halves);
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        unpack_halves<I>(run, first, second);
    }
};

}  // namespace

const Kernel q4_1 = kernel_of<Runs, Q4_1>();

}  // namespace specchat

#endif
