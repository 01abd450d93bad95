// The family of Q4_K and Q5_K: blocks of 256 values, eight runs of 32 with a scale and a minimum of
// six bits each, which two floats of the block scale again.
//
// A block of a strip, with tiles A and B:
//     | scales A B | scales of minima A B | six bits A | six bits B | run A | run B | ...
// A block of a panel:
//     | 8 runs of 32 bytes a row | 4 pairs of sums a row | a scale a row |
//
// Six bits: four registers full of numbers of six bits in three, the fourth in the top two bits of
// the others. The first two are the scales of runs 0 to 3 and 4 to 7, of kLanes outputs each; the
// last two the minima of runs 0 to 3 and 4 to 7, two runs of an output side by side.
#pragma once

#include "activations.h"
#include "dot.h"
#include "pack.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

constexpr int kSixBits = 3 * simd::kRegister;

// Four registers from three; `six` is aligned.
SPECCHAT_INLINE void unpack_six_bits(const uint8_t* packed, uint8_t* six) {
    using namespace simd;
    const Ints a = load(packed), b = load(packed + kRegister), c = load(packed + 2 * kRegister);
    const Ints mask = bytes(63);
    store(six, both(a, mask));
    store(six + kRegister, both(b, mask));
    store(six + 2 * kRegister, both(c, mask));
    const Ints low = both(right<6>(a), bytes(3)), middle = both(right<4>(b), bytes(12));
    store(six + 3 * kRegister, either(either(low, middle), both(right<2>(c), bytes(48))));
}

template <class Type, int ROWS>
struct Blocks {
    static constexpr int kSums = 256 * ROWS;
    static constexpr int kScales = kSums + 16 * ROWS;
    static constexpr int kPanelBytes = kScales + 4 * ROWS;

    static void quantize(const float* const* rows, uint8_t* block) {
        for (int row = 0; row < ROWS; row++) {
            auto* bytes = reinterpret_cast<int8_t*>(block + 32 * row);
            const float scale = quantize_row<256>(rows[row], bytes, 32 * ROWS);
            for (int run = 0; run < 8; run++) {
                const auto sum = static_cast<int16_t>(sum_of(bytes + run * 32 * ROWS, 32));
                memcpy(block + kSums + 4 * (run / 2 * ROWS + row) + run % 2 * 2, &sum, 2);
            }
            memcpy(block + kScales + 4 * row, &scale, 4);
        }
    }

    static void multiply(const uint8_t* strip, const uint8_t* panel, int blocks,
                         float* const* out) {
        using namespace simd;
        Floats results[2][ROWS];
        SPECCHAT_UNROLL
        for (int t = 0; t < 2; t++) {
            SPECCHAT_UNROLL
            for (int row = 0; row < ROWS; row++) results[t][row] = no_floats();
        }
        for (int block = 0; block < blocks; block++) {
            alignas(64) uint8_t six[2][4 * kRegister];
            Floats scales[2], parts[2][ROWS];
            SPECCHAT_UNROLL
            for (int t = 0; t < 2; t++) {
                const uint8_t* scale = strip + 2 * kTile * t;
                const uint8_t* packed = strip + 2 * kHalves + kSixBits * t;
                fetch_ahead(scale);
                fetch_ahead(packed);
                fetch_ahead(packed + kRegister);
                fetch_ahead(packed + 2 * kRegister);
                scales[t] = halves(scale);
                unpack_six_bits(packed, six[t]);
                const uint8_t* minima = six[t] + 2 * kRegister;
                add_minima(minima, halves(scale + kHalves), panel + kSums, parts[t]);
            }
            const uint8_t* runs = strip + Type::kHeader;
            for (int run = 0; run < 8; run++, runs += 2 * Type::kRunBytes) {
                Sums<ROWS> sums;
                SPECCHAT_UNROLL
                for (int t = 0; t < 2; t++) {
                    SPECCHAT_UNROLL
                    for (int row = 0; row < ROWS; row++) sums[t][row] = no_ints();
                }
                add_run<Type, ROWS>(runs, panel + run * 32 * ROWS, sums, WholeRun());
                SPECCHAT_UNROLL
                for (int t = 0; t < 2; t++) {
                    const Ints number = unsigned_bytes(six[t] + kLanes * run);
                    const Floats scale = times(scales[t], to_floats(number));
                    SPECCHAT_UNROLL
                    for (int row = 0; row < ROWS; row++) {
                        parts[t][row] = fused(to_floats(sums[t][row]), scale, parts[t][row]);
                    }
                }
            }
            SPECCHAT_UNROLL
            for (int row = 0; row < ROWS; row++) {
                const Floats row_scale = spread_float(panel + kScales + 4 * row);
                SPECCHAT_UNROLL
                for (int t = 0; t < 2; t++) {
                    results[t][row] = fused(parts[t][row], row_scale, results[t][row]);
                }
            }
            strip += Type::kStripBytes;
            panel += kPanelBytes;
        }
        SPECCHAT_UNROLL
        for (int row = 0; row < ROWS; row++) {
            SPECCHAT_UNROLL
            for (int t = 0; t < 2; t++) store(out[row] + kTile * t, results[t][row]);
        }
    }

  private:
    // What the minima take from a block: they times the sums of each run's bytes.
    static SPECCHAT_INLINE void add_minima(const uint8_t* minima, simd::Floats scale,
                                           const uint8_t* sums, simd::Floats (&parts)[ROWS]) {
        using namespace simd;
        const Floats negative = times(scale, floats(-1.0F));
        SPECCHAT_UNROLL
        for (int row = 0; row < ROWS; row++) {
            Ints sum = no_ints();
            SPECCHAT_UNROLL
            for (int pair = 0; pair < 4; pair++) {
                const Ints numbers = unsigned_pairs(minima + 2 * kLanes * pair);
                sum = dot_pairs(sum, numbers, spread(sums + 4 * (pair * ROWS + row)));
            }
            parts[row] = times(to_floats(sum), negative);
        }
    }
};

// What Q4_K and Q5_K have in common. `RUN` registers hold 32 values of a tile.
template <int RUN>
struct BlockType {
    static constexpr int kValues = 256;
    static constexpr bool kWide = false;
    static constexpr int kRunBytes = RUN * simd::kRegister;
    static constexpr int kHeader = 2 * kHalves + 2 * kSixBits;
    static constexpr int kStripBytes = kHeader + 8 * 2 * kRunBytes;

    // The two floats, and the scales and minima that the file packs into 12 bytes.
    static void put_scales(const uint8_t (&scales)[2][2], const uint8_t* packed, uint8_t* strip,
                           int output) {
        memcpy(strip + 2 * output, scales[0], 2);
        memcpy(strip + kHalves + 2 * output, scales[1], 2);
        uint8_t* six = strip + 2 * kHalves + output / kTile * kSixBits;
        const int lane = output % kTile;
        for (int run = 0; run < 8; run++) {
            const int i = run % 4;
            const bool low = run < 4;
            const int top = packed[i] >> 6 << 4, min_top = packed[i + 4] >> 6 << 4;
            const int scale = low ? packed[i] & 63 : (packed[i + 8] & 15) | top;
            const int minimum = low ? packed[i + 4] & 63 : packed[i + 8] >> 4 | min_top;
            const int at = i / 2 * 2 * kTile + 2 * lane + i % 2;
            put_six(six, run / 4, i * kTile + lane, scale);
            put_six(six, 2 + run / 4, at, minimum);
        }
    }

  private:
    static void put_six(uint8_t* six, int set, int at, int number) {
        if (set < 3) {
            six[set * simd::kRegister + at] |= static_cast<uint8_t>(number);
            return;
        }
        for (int i = 0; i < 3; i++) {
            const int two = number >> 2 * i & 3;
            six[i * simd::kRegister + at] |= static_cast<uint8_t>(two << 6);
        }
    }
};

// Runs 2i and 2i + 1 of a block, which the file has in the low and the high halves of 32 bytes.
template <class Type>
SPECCHAT_INLINE void put_two_runs(uint8_t* runs, int i, int output, const uint8_t* halves) {
    uint8_t* low = runs + (4 * i + output / kTile) * Type::kRunBytes;
    uint8_t* high = low + 2 * Type::kRunBytes;
    for (int r = 0; r < 4; r++) {
        const uint32_t first = four(halves, 2 * r), second = four(halves, 2 * r + 1);
        put_four(low, r, output % kTile, low_halves(first, second));
        put_four(high, r, output % kTile, high_halves(first, second));
    }
}

}  // namespace specchat

#endif
