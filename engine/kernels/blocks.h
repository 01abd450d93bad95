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

// The same backwards.
SPECCHAT_INLINE void pack_six_bits(const uint8_t* six, uint8_t* packed) {
    using namespace simd;
    const Ints fourth = load(six + 3 * kRegister), top = bytes(-64);
    const Ints a = left<6>(fourth), b = left<4>(fourth), c = left<2>(fourth);
    store(packed, choose(top, a, load(six)));
    store(packed + kRegister, choose(top, b, load(six + kRegister)));
    store(packed + 2 * kRegister, choose(top, c, load(six + 2 * kRegister)));
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

    // The two floats, and the scales and minima that the file packs into 12 bytes: those of runs 0
    // to 3 in the low six bits of four each, of runs 4 to 7 in the halves of the last four and the
    // bits above those six.
    template <class Block>
    static void put_scales(const Tile<Block>& tile, uint8_t* strip, int t) {
        using simd::kRegister;
        put_halves(tile, strip + 2 * kTile * t, &Block::scale);
        put_halves(tile, strip + kHalves + 2 * kTile * t, &Block::scale_of_minima);
        alignas(64) uint8_t six[4 * kRegister];
        for (int lane = 0; lane < kTile; lane += 4) {
            const auto words = [&](int i) {
                const auto word = [&](int output) {
                    return simd::four_bytes(tile[lane + output]->six_bits + 4 * i);
                };
                return _mm_setr_epi32(word(0), word(1), word(2), word(3));
            };
            const Words scales = words(0), minima = words(1), halves = words(2);
            put_bytes(six + lane, kTile, field<0>(scales, 63));
            put_bytes(six + kRegister + lane, kTile,
                      _mm_or_si128(field<0>(halves, 15), field<2>(scales, 48)));
            put_pairs(six + 2 * kRegister + 2 * lane, field<0>(minima, 63));
            put_pairs(six + 3 * kRegister + 2 * lane,
                      _mm_or_si128(field<4>(halves, 15), field<2>(minima, 48)));
        }
        pack_six_bits(six, strip + 2 * kHalves + kSixBits * t);
    }

    // The four bits a value that all have: runs 2i and 2i + 1 lie in the low and the high halves of
    // 32 bytes.
    template <class Block>
    static void put_runs(const Tile<Block>& tile, uint8_t* strip, int t) {
        uint8_t* run = strip + kHeader + t * kRunBytes;
        for (int i = 0; i < 4; i++) {
            put_half_run<0>(tile, run + 4 * i * kRunBytes, 32 * i);
            put_half_run<4>(tile, run + (4 * i + 2) * kRunBytes, 32 * i);
        }
    }

  private:
    // Bytes 2i and 2i + 1 of four outputs' words into line i of two, of kTile pairs each.
    static SPECCHAT_INLINE void put_pairs(uint8_t* lines, Words words) {
        const Words order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        uint8_t pairs[16];
        store_words(pairs, _mm_shuffle_epi8(words, order));
        for (int i = 0; i < 2; i++) memcpy(lines + 2 * kTile * i, pairs + 8 * i, 8);
    }
};

}  // namespace specchat

#endif
