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

    static void put(const Tile<Block>& tile, uint8_t* strip, int t) {
        put_halves(tile, strip + 2 * kTile * t, &Block::scale);
        put_halves(tile, strip + kHalves + 2 * kTile * t, &Block::minimum);
        put_run(tile, strip + kHeader + t * kRunBytes);
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
