// Q5_0: weight = scale * (five bits - 16). A run's fifth register has the fifth bits: bit s of
// byte 4 * lane + t is that of value 4s + t, of step s.
#include "../runs.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

// Bits 0, 4, 8, … 28 as one byte.
SPECCHAT_INLINE uint32_t every_fourth(uint32_t bits) {
    bits &= 0x11111111;
    bits = (bits | bits >> 3) & 0x03030303;
    bits = (bits | bits >> 6) & 0x000f000f;
    return (bits | bits >> 12) & 0xff;
}

struct Q5_0 : RunType<5, 16, false> {
    struct Block {
        uint8_t scale[2];
        uint8_t fifth[4];
        uint8_t halves[16];
    };

    static void put(const Block& block, uint8_t* strip, int output) {
        memcpy(strip + 2 * output, block.scale, 2);
        uint8_t* run = strip + kHeader + output / kTile * kRunBytes;
        put_run(run, output % kTile, block.halves);
        const uint32_t bits = four(block.fifth, 0);
        const uint32_t fifth = every_fourth(bits) | every_fourth(bits >> 1) << 8 |
                               every_fourth(bits >> 2) << 16 | every_fourth(bits >> 3) << 24;
        put_four(run, 4, output % kTile, fifth);
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        unpack_five_bits<I>(run, first, second);
    }
};

}  // namespace

const Kernel q5_0 = kernel_of<Runs, Q5_0>();

}  // namespace specchat

#endif
