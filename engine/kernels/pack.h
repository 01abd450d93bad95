// Packing: moves a file's weights into strips, four bytes of four outputs at a time.
//
// Register i of a run has, in byte 4 * lane + t, the values 8i + t in its low and 8i + 4 + t in its
// high half: with four bits a value that is all, further bits lie in registers of their own. The
// file has all values of an output side by side, so packing is arithmetic on 16 bytes of one output
// and then a transposition: what belongs to four registers, of four outputs, to what belongs to
// four outputs, of each register. It takes less time than the pages of a file need to arrive.
#pragma once

#include "kernel.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

// Four words of 32 bits: one output's for four registers, or four outputs' for one.
using Words = __m128i;

SPECCHAT_INLINE Words load_words(const uint8_t* bytes) {
    return _mm_loadu_si128(reinterpret_cast<const Words*>(bytes));
}
SPECCHAT_INLINE void store_words(uint8_t* bytes, Words words) {
    _mm_storeu_si128(reinterpret_cast<Words*>(bytes), words);
}

// Of every byte its `bits`, from bit SHIFT on.
template <int SHIFT>
SPECCHAT_INLINE Words field(Words words, char bits) {
    return _mm_and_si128(_mm_srli_epi32(words, SHIFT), _mm_set1_epi8(bits));
}

// Words 0, 2, 4, 6 and 1, 3, 5, 7 of two fours.
SPECCHAT_INLINE Words even_words(Words a, Words b) {
    return _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), 0x88));
}
SPECCHAT_INLINE Words odd_words(Words a, Words b) {
    return _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), 0xdd));
}

// The four registers of a run, from its values: 0 to 15 and 16 to 31, of four bits each.
SPECCHAT_INLINE Words run_of(Words first, Words second) {
    const Words low = even_words(first, second), high = odd_words(first, second);
    return _mm_or_si128(low, _mm_slli_epi32(high, 4));
}

// Four words of each of four outputs become four outputs' of each of four registers.
SPECCHAT_INLINE void transpose(Words (&words)[4]) {
    const Words a = _mm_unpacklo_epi32(words[0], words[1]);
    const Words b = _mm_unpacklo_epi32(words[2], words[3]);
    const Words c = _mm_unpackhi_epi32(words[0], words[1]);
    const Words d = _mm_unpackhi_epi32(words[2], words[3]);
    words[0] = _mm_unpacklo_epi64(a, b);
    words[1] = _mm_unpackhi_epi64(a, b);
    words[2] = _mm_unpacklo_epi64(c, d);
    words[3] = _mm_unpackhi_epi64(c, d);
}

// The blocks that the outputs of a tile have side by side.
template <class Block>
using Tile = const Block* [kTile];

// Fills four registers, `apart` bytes from one to the next, with the words of each output's block.
template <class Block, class WordsOf>
SPECCHAT_INLINE void put_registers(const Tile<Block>& tile, uint8_t* registers, size_t apart,
                                   WordsOf words_of) {
    for (int lane = 0; lane < kTile; lane += 4) {
        Words words[4];
        for (int i = 0; i < 4; i++) words[i] = words_of(*tile[lane + i]);
        transpose(words);
        for (int i = 0; i < 4; i++) store_words(registers + i * apart + 4 * lane, words[i]);
    }
}

// Fills the run that the file has in the low (SHIFT is 0) or the high halves (4) of 32 bytes of its
// `halves`, from `at` on.
template <int SHIFT, class Block>
SPECCHAT_INLINE void put_half_run(const Tile<Block>& tile, uint8_t* run, int at) {
    put_registers(tile, run, simd::kRegister, [at](const Block& block) {
        const Words first = load_words(block.halves + at);
        const Words second = load_words(block.halves + at + 16);
        return run_of(field<SHIFT>(first, 15), field<SHIFT>(second, 15));
    });
}

// One 16-bit float of each output.
template <class Block>
SPECCHAT_INLINE void put_halves(const Tile<Block>& tile, uint8_t* line,
                                const uint8_t (Block::*half)[2]) {
    for (int lane = 0; lane < kTile; lane++) memcpy(line + 2 * lane, tile[lane]->*half, 2);
}

// Puts byte i of four outputs' words side by side into line i of four, `apart` bytes from one to
// the next.
SPECCHAT_INLINE void put_bytes(uint8_t* lines, size_t apart, Words words) {
    const Words order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    uint8_t bytes[16];
    store_words(bytes, _mm_shuffle_epi8(words, order));
    for (int i = 0; i < 4; i++) memcpy(lines + i * apart, bytes + 4 * i, 4);
}

// Steps 2I and 2I + 1 of a run of four bits a value.
template <int I>
SPECCHAT_INLINE void unpack_halves(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
    const uint8_t* here = run + I * simd::kRegister;
    simd::fetch_ahead(here);
    const simd::Ints both = simd::load(here), low = simd::bytes(15);
    first = simd::both(both, low);
    second = simd::both(simd::right<4>(both), low);
}

// Further bits of each byte, moved by `LEFT` to where they belong above the low four.
template <int LEFT>
SPECCHAT_INLINE simd::Ints moved(simd::Ints bits) {
    if constexpr (LEFT >= 0) return simd::left<LEFT>(bits);
    else return simd::right<-LEFT>(bits);
}

// The same of five bits a value: bit s of each byte of a fifth register is the highest of step s.
template <int I>
SPECCHAT_INLINE void unpack_five_bits(const uint8_t* run, simd::Ints& first, simd::Ints& second) {
    using namespace simd;
    const uint8_t* here = run + I * kRegister;
    fetch_ahead(here);
    if (I == 0) fetch_ahead(run + 4 * kRegister);
    const Ints halves = load(here), fifth = load(run + 4 * kRegister);
    const Ints low = bytes(15), five = bytes(31);
    first = both(choose(low, halves, moved<4 - 2 * I>(fifth)), five);
    second = both(choose(low, right<4>(halves), moved<3 - 2 * I>(fifth)), five);
}

// Calls Type::put(blocks of a tile, block of the strip, which tile) for all of them. Blocks are read
// in place, which their fields of bytes allow at any address: of a local copy GCC 12 assumes an
// alignment of 16 bytes that it does not give it in every function, and the process ends.
template <class Type>
void pack_strip(const uint8_t* rows, size_t stride, int outputs, int blocks, uint8_t* strip) {
    using Block = typename Type::Block;
    static const Block nothing = {};  // what outputs have that are not there
    for (int block = 0; block < blocks; block++, strip += Type::kStripBytes) {
        for (int t = 0; t < 2; t++) {
            Tile<Block> tile;
            for (int lane = 0; lane < kTile; lane++) {
                const int output = t * kTile + lane;
                const uint8_t* one = rows + output * stride + block * sizeof(Block);
                tile[lane] = output < outputs ? reinterpret_cast<const Block*>(one) : &nothing;
            }
            Type::put(tile, strip, t);
        }
    }
}

}  // namespace specchat

#endif
