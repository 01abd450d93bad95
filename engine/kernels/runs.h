// The family of types with a scale for every 32 values: Q4_0, Q4_1, Q5_0, Q8_0.
//
// A block of a strip, with tiles A and B:   | scales A B | (minima A B) | run A | run B |
// A block of a panel, of ROWS rows:         | 32 bytes a row | a sum a row | a scale a row |
//
// A weight is scale * (byte - kZero), or scale * byte + minimum. Both corrections need no more than
// the sum of a row's bytes: the integer sums begin with -kZero times it, the minima are added to
// their product. Each output is one sequence of float operations, block after block, whatever the
// number of rows: that is why its bits do not depend on the rows beside it.
#pragma once

#include "activations.h"
#include "dot.h"
#include "pack.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

// A run of which the file has values 0 to 15 in the low, 16 to 31 in the high halves of 16 bytes.
template <class Block>
SPECCHAT_INLINE void put_run(const Tile<Block>& tile, uint8_t* run) {
    put_registers(tile, run, simd::kRegister, [](const Block& block) {
        const Words halves = load_words(block.halves);
        return run_of(field<0>(halves, 15), field<4>(halves, 15));
    });
}

template <class Type, int ROWS>
struct Runs {
    static constexpr int kSums = 32 * ROWS;
    static constexpr int kScales = kSums + 4 * ROWS;
    static constexpr int kPanelBytes = kScales + 4 * ROWS;

    static void quantize(const float* const* rows, uint8_t* block) {
        for (int row = 0; row < ROWS; row++) {
            auto* bytes = reinterpret_cast<int8_t*>(block + 32 * row);
            const float scale = quantize_row<32>(rows[row], bytes, 0);
            const int32_t sum = sum_of(bytes, 32);
            if (Type::kMinimum) {
                const auto factor = static_cast<float>(sum);
                memcpy(block + kSums + 4 * row, &factor, 4);
            } else {
                const int32_t start = -Type::kZero * sum;
                memcpy(block + kSums + 4 * row, &start, 4);
            }
            memcpy(block + kScales + 4 * row, &scale, 4);
        }
    }

    static void multiply(const uint8_t* strip, const uint8_t* panel, int blocks,
                         float* const* out) {
        using namespace simd;
        const uint8_t* scales = strip;
        const uint8_t* runs = strip + Type::kHeader;
        Floats results[2][ROWS];
        SPECCHAT_UNROLL
        for (int t = 0; t < 2; t++) {
            SPECCHAT_UNROLL
            for (int row = 0; row < ROWS; row++) results[t][row] = no_floats();
        }
        for (int block = 0; block < blocks; block++) {
            Sums<ROWS> sums;
            SPECCHAT_UNROLL
            for (int row = 0; row < ROWS; row++) {
                const Ints start = Type::kMinimum ? no_ints() : spread(panel + kSums + 4 * row);
                SPECCHAT_UNROLL
                for (int t = 0; t < 2; t++) sums[t][row] = start;
            }
            fetch_ahead(scales);
            if (Type::kMinimum) fetch_ahead(scales + kHalves);
            add_run<Type, ROWS>(runs, panel, sums, WholeRun());
            SPECCHAT_UNROLL
            for (int t = 0; t < 2; t++) {
                const Floats scale = halves(scales + 2 * kTile * t);
                SPECCHAT_UNROLL
                for (int row = 0; row < ROWS; row++) {
                    Floats product = times(to_floats(sums[t][row]), scale);
                    if (Type::kMinimum) {
                        const Floats minimum = halves(scales + kHalves + 2 * kTile * t);
                        product = fused(spread_float(panel + kSums + 4 * row), minimum, product);
                    }
                    const Floats row_scale = spread_float(panel + kScales + 4 * row);
                    results[t][row] = fused(product, row_scale, results[t][row]);
                }
            }
            scales += Type::kStripBytes;
            runs += Type::kStripBytes;
            panel += kPanelBytes;
        }
        SPECCHAT_UNROLL
        for (int row = 0; row < ROWS; row++) {
            SPECCHAT_UNROLL
            for (int t = 0; t < 2; t++) store(out[row] + kTile * t, results[t][row]);
        }
    }
};

// What the types of this family have in common. `RUN` registers hold 32 values of a tile.
template <int RUN, int ZERO, bool MINIMUM>
struct RunType {
    static constexpr int kValues = 32;
    static constexpr bool kWide = false;  // whether weights are bytes above 127
    static constexpr int kZero = ZERO;
    static constexpr bool kMinimum = MINIMUM;
    static constexpr int kRunBytes = RUN * simd::kRegister;
    static constexpr int kHeader = MINIMUM ? 2 * kHalves : kHalves;
    static constexpr int kStripBytes = kHeader + 2 * kRunBytes;
};

}  // namespace specchat

#endif
