// Packing: moves a file's weights into strips, four bytes at a time.
//
// Register i of a run has, in byte 4 * lane + t, the values 8i + t in its low and 8i + 4 + t in its
// high half: with four bits a value that is all, further bits lie in registers of their own.
// Everything here is arithmetic on four bytes at once, which compilers turn into vectors by
// themselves. It reads about as fast as the pages of a file arrive.
#pragma once

#include "kernel.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

constexpr uint32_t kLowHalves = 0x0f0f0f0f;

// The `i`th four of bytes.
SPECCHAT_INLINE uint32_t four(const uint8_t* bytes, int i) {
    uint32_t result;
    memcpy(&result, bytes + 4 * i, sizeof result);
    return result;
}

SPECCHAT_INLINE void put_four(uint8_t* run, int i, int lane, uint32_t bytes) {
    memcpy(run + i * simd::kRegister + 4 * lane, &bytes, sizeof bytes);
}

// The low halves of two fours as one.
SPECCHAT_INLINE uint32_t low_halves(uint32_t first, uint32_t second) {
    return (first & kLowHalves) | (second & kLowHalves) << 4;
}

SPECCHAT_INLINE uint32_t high_halves(uint32_t first, uint32_t second) {
    return (first >> 4 & kLowHalves) | (second & ~kLowHalves);
}

// A run of which the file has values 0 to 15 in the low, 16 to 31 in the high halves of 16 bytes.
SPECCHAT_INLINE void put_run(uint8_t* run, int lane, const uint8_t* halves) {
    for (int i = 0; i < 2; i++) {
        const uint32_t first = four(halves, 2 * i), second = four(halves, 2 * i + 1);
        put_four(run, i, lane, low_halves(first, second));
        put_four(run, i + 2, lane, high_halves(first, second));
    }
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

// Calls Type::put(block of one output, block of the strip, output) for all of them. A block is read
// in place, which its fields of bytes allow at any address: of a local copy GCC 12 assumes an
// alignment of 16 bytes that it does not give it in every function, and the process ends.
template <class Type>
void pack_strip(const uint8_t* rows, size_t stride, int outputs, int blocks, uint8_t* strip) {
    for (int block = 0; block < blocks; block++, strip += Type::kStripBytes) {
        memset(strip, 0, Type::kStripBytes);
        for (int output = 0; output < outputs; output++) {
            using Block = typename Type::Block;
            const uint8_t* one = rows + output * stride + block * sizeof(Block);
            Type::put(*reinterpret_cast<const Block*>(one), strip, output);
        }
    }
}

}  // namespace specchat

#endif
