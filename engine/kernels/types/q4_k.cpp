// Q4_K: weight = scale * (six bits * four bits) - scale of minima * six bits.
#include "../blocks.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q4_K : BlockType<4> {
    struct Block {
        uint8_t scales[2][2];
        uint8_t six_bits[12];
        uint8_t halves[128];
    };

    static void put(const Block& block, uint8_t* strip, int output) {
        put_scales(block.scales, block.six_bits, strip, output);
        for (int i = 0; i < 4; i++) {
            put_two_runs<Q4_K>(strip + kHeader, i, output, block.halves + 32 * i);
        }
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
