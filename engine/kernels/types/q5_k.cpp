// Q5_K: weight = scale * (six bits * five bits) - scale of minima * six bits. The file has bit j of
// 32 bytes for the fifth bits of run j; a run's fifth register has them as Q5_0's.
#include "../blocks.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q5_K : BlockType<5> {
    struct Block {
        uint8_t scales[2][2];
        uint8_t six_bits[12];
        uint8_t fifth[32];
        uint8_t halves[128];
    };

    static void put(const Block& block, uint8_t* strip, int output) {
        put_scales(block.scales, block.six_bits, strip, output);
        uint8_t* runs = strip + kHeader;
        for (int i = 0; i < 4; i++) put_two_runs<Q5_K>(runs, i, output, block.halves + 32 * i);
        for (int run = 0; run < 8; run++) {
            uint32_t fifth = 0;
            for (int step = 0; step < 8; step++) {
                fifth |= (four(block.fifth, step) >> run & 0x01010101) << step;
            }
            put_four(runs + (2 * run + output / kTile) * kRunBytes, 4, output % kTile, fifth);
        }
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        unpack_five_bits<I>(run, first, second);
    }
};

}  // namespace

const Kernel q5_k = kernel_of<Blocks, Q5_K>();

}  // namespace specchat

#endif
