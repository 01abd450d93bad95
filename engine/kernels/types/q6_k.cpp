// Q6_K: weight = scale * (signed byte * (six bits - 32)), in blocks of 256 values with a signed
// byte for every 16.
//
// A block of a strip:  | scales A B | 16 times bytes A B | run A | run B | ...
// A block of a panel:  | 8 runs of 32 bytes a row | 16 times a sum a row | a scale a row |
//
// A run has four registers of four bits a value, as all types, and one for each 16 values with
// their upper two bits: those of its step s at bits 2s.
#include "../activations.h"
#include "../dot.h"
#include "../pack.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

struct Q6_K {
    static constexpr int kValues = 256;
    static constexpr bool kWide = false;
    static constexpr int kRunBytes = 6 * simd::kRegister;
    static constexpr int kHeader = kHalves + 16 * kStrip;
    static constexpr int kStripBytes = kHeader + 8 * 2 * kRunBytes;

    struct Block {
        uint8_t halves[128];
        uint8_t upper[64];
        uint8_t bytes[16];
        uint8_t scale[2];
    };

    static void put(const Tile<Block>& tile, uint8_t* strip, int t) {
        put_halves(tile, strip + 2 * kTile * t, &Block::scale);
        put_scales(tile, strip + kHalves + kTile * t);
        uint8_t* runs = strip + kHeader + t * kRunBytes;
        for (int i = 0; i < 2; i++, runs += 4 * 2 * kRunBytes) put_four_runs(tile, i, runs);
    }

    template <int I>
    static SPECCHAT_INLINE void unpack(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
        using namespace simd;
        constexpr int kLeft = I % 2 == 0 ? 4 : 0;
        const uint8_t *here = run + I * kRegister, *bits = run + (4 + I / 2) * kRegister;
        fetch_ahead(here);
        if (I % 2 == 0) fetch_ahead(bits);
        const Ints halves = load(here), upper = load(bits), low = bytes(15), six = bytes(63);
        first = both(choose(low, halves, moved<kLeft>(upper)), six);
        second = both(choose(low, right<4>(halves), moved<kLeft - 2>(upper)), six);
    }

  private:
    static void put_scales(const Tile<Block>& tile, uint8_t* lines) {
        for (int lane = 0; lane < kTile; lane += 4) {
            Words words[4];
            for (int i = 0; i < 4; i++) words[i] = load_words(tile[lane + i]->bytes);
            transpose(words);
            for (int i = 0; i < 4; i++) put_bytes(lines + 4 * i * kStrip + lane, kStrip, words[i]);
        }
    }

    // Of each 128 values the file has the lower four bits of runs 0 and 2, 1 and 3 in the low and
    // the high halves of 32 bytes, and the upper bits of run i at bits 2i of another 32.
    static void put_four_runs(const Tile<Block>& tile, int i, uint8_t* runs) {
        constexpr size_t kApart = 2 * kRunBytes;
        for (int run = 0; run < 2; run++) {
            put_half_run<0>(tile, runs + run * kApart, 64 * i + 32 * run);
            put_half_run<4>(tile, runs + (run + 2) * kApart, 64 * i + 32 * run);
        }
        for (int half = 0; half < 2; half++) {
            const int at = 32 * i + 16 * half;
            uint8_t* upper = runs + (4 + half) * simd::kRegister;
            put_registers(tile, upper, kApart, [at](const Block& block) {
                return exchanged<2>(exchanged<4>(load_words(block.upper + at)));
            });
        }
    }

    // From words of steps with bits of four runs to words of runs with bits of four steps: first
    // the two halves of bytes and pairs of words change places, then the same within each.
    template <int BITS>
    static SPECCHAT_INLINE Words exchanged(Words words) {
        constexpr char kLow = BITS == 4 ? 0x0f : 0x33;
        const Words other = _mm_shuffle_epi32(words, BITS == 4 ? 0x4e : 0xb1);
        const Words low = _mm_or_si128(field<0>(words, kLow),
                                       _mm_slli_epi32(field<0>(other, kLow), BITS));
        const Words high = _mm_or_si128(field<BITS>(other, kLow), field<0>(words, ~kLow));
        return _mm_blend_epi32(low, high, BITS == 4 ? 0xc : 0xa);
    }
};

template <class Type, int ROWS>
struct SignedBlocks {
    static constexpr int kSums = 256 * ROWS;
    static constexpr int kScales = kSums + 64 * ROWS;
    static constexpr int kPanelBytes = kScales + 4 * ROWS;

    static void quantize(const float* const* rows, uint8_t* block) {
        for (int row = 0; row < ROWS; row++) {
            auto* bytes = reinterpret_cast<int8_t*>(block + 32 * row);
            const float scale = quantize_row<256>(rows[row], bytes, 32 * ROWS);
            for (int i = 0; i < 16; i++) {
                const int32_t start = -32 * sum_of(bytes + i / 2 * 32 * ROWS + i % 2 * 16, 16);
                memcpy(block + kSums + 4 * (i * ROWS + row), &start, 4);
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
            Floats scales[2], parts[2][ROWS];
            SPECCHAT_UNROLL
            for (int t = 0; t < 2; t++) {
                scales[t] = halves(strip + 2 * kTile * t);
                SPECCHAT_UNROLL
                for (int row = 0; row < ROWS; row++) parts[t][row] = no_floats();
            }
            for (int ahead = 0; ahead < Type::kHeader; ahead += 64) fetch_ahead(strip + ahead);
            const uint8_t* bytes = strip + kHalves;
            const uint8_t* runs = strip + Type::kHeader;
            for (int run = 0; run < 8; run++, runs += 2 * Type::kRunBytes, bytes += 2 * kStrip) {
                const uint8_t* values = panel + run * 32 * ROWS;
                const uint8_t* sums = panel + kSums + run * 8 * ROWS;
                add_half(runs, values, sums, bytes, scales, parts, FirstHalf());
                sums += 4 * ROWS;
                add_half(runs, values, sums, bytes + kStrip, scales, parts, SecondHalf());
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
    // 16 values of each row, with a byte of their own for each output.
    template <class Half>
    static SPECCHAT_INLINE void add_half(const uint8_t* run, const uint8_t* values,
                                         const uint8_t* starts, const uint8_t* bytes,
                                         const simd::Floats (&scales)[2],
                                         simd::Floats (&parts)[2][ROWS], Half half) {
        using namespace simd;
        Sums<ROWS> sums;
        SPECCHAT_UNROLL
        for (int row = 0; row < ROWS; row++) {
            const Ints start = spread(starts + 4 * row);
            SPECCHAT_UNROLL
            for (int t = 0; t < 2; t++) sums[t][row] = start;
        }
        add_run<Type, ROWS>(run, values, sums, half);
        SPECCHAT_UNROLL
        for (int t = 0; t < 2; t++) {
            const Floats scale = times(scales[t], to_floats(signed_bytes(bytes + kTile * t)));
            SPECCHAT_UNROLL
            for (int row = 0; row < ROWS; row++) {
                parts[t][row] = fused(to_floats(sums[t][row]), scale, parts[t][row]);
            }
        }
    }
};

}  // namespace

const Kernel q6_k = kernel_of<SignedBlocks, Q6_K>();

}  // namespace specchat

#endif
