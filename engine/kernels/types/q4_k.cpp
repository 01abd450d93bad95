// Q4_K: weight = scale * (six bits * four bits) - scale of minima * six bits.
#include "../blocks.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q4_K : BlockType<4> {
    struct Block {
        uint8_t scale[2], scale_of_minima[2];
        uint8_t six_bits[12];
        uint8_t halves[128];
    };

    static void put(const Tile<Block>& tile, uint8_t* strip, int t) {
        put_scales(tile, strip, t);
        put_runs(tile, strip, t);
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        unpack_halves<I>(run, first, second);
    }
};

}  // namespace

const Kernel q4_k = kernel_of<Blocks, Q4_K>();

}  // namespace specchat

#endif
