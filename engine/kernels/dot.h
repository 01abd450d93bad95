// The innermost loop, the same for all types: a register of weights times a row's four bytes.
//
// A *step* is four values of k: a register with a byte for each, of kLanes outputs. A type's
// `unpack<I>` makes the steps 2I and 2I + 1 of the eight that a run of 32 values has. They are made
// once and used for all rows of the panel, and each broadcast of a row's bytes for both tiles.
#pragma once

#include "kernel.h"
#include "pack.h"

#if SPECCHAT_SIMD

#include <utility>

SPECCHAT_KERNELS_BEGIN

template <int ROWS, int TILES>
using Sums = simd::Ints[TILES][ROWS];

template <int ROWS, int TILES>
SPECCHAT_INLINE void add_step(const simd::Ints (&weights)[TILES], const uint8_t* values,
                              Sums<ROWS, TILES>& sums) {
    SPECCHAT_UNROLL
    for (int row = 0; row < ROWS; row++) {
        const simd::Ints four = simd::spread(values + 32 * row);
        SPECCHAT_UNROLL
        for (int tile = 0; tile < TILES; tile++) {
            sums[tile][row] = simd::dot(sums[tile][row], weights[tile], four);
        }
    }
}

template <class Type, int I, int ROWS, int TILES>
SPECCHAT_INLINE void add_two_steps(const uint8_t* weights, const uint8_t* values,
                                   Sums<ROWS, TILES>& sums) {
    simd::Ints first[TILES], second[TILES];
    SPECCHAT_UNROLL
    for (int tile = 0; tile < TILES; tile++) {
        Type::template unpack<I>(weights + tile * Type::kRunBytes, first[tile], second[tile]);
    }
    add_step<ROWS, TILES>(first, values + 8 * I, sums);
    add_step<ROWS, TILES>(second, values + 8 * I + 4, sums);
}

// Adds the products of a run of 32 values, or of the pairs of its steps that `I` names. `weights`
// points to the first tile's run, `values` to the first row's.
template <class Type, int ROWS, int TILES, int... I>
SPECCHAT_INLINE void add_run(const uint8_t* weights, const uint8_t* values,
                             Sums<ROWS, TILES>& sums, std::integer_sequence<int, I...>) {
    (add_two_steps<Type, I, ROWS, TILES>(weights, values, sums), ...);
}

using WholeRun = std::integer_sequence<int, 0, 1, 2, 3>;
using FirstHalf = std::integer_sequence<int, 0, 1>;
using SecondHalf = std::integer_sequence<int, 2, 3>;

// Both tiles at once share broadcasts; where their sums do not fit the registers, one after the
// other is faster. The sums are the same.
constexpr int tiles_at_once(int rows) {
    return rows <= (SPECCHAT_SIMD == 512 ? 6 : 2) ? 2 : 1;
}

// A family's loop over a strip as a Multiply, for a type and a number of rows.
template <template <class, int, int> class Family, class Type, int ROWS>
void multiply_strip(const uint8_t* strip, const uint8_t* panel, int blocks, float* const* out) {
    constexpr int kAtOnce = tiles_at_once(ROWS);
    for (int tile = 0; tile < 2; tile += kAtOnce) {
        Family<Type, ROWS, kAtOnce>::multiply(strip, panel, blocks, tile, out);
    }
}

template <template <class, int, int> class Family, class Type, int... R>
constexpr Kernel kernel_of(std::integer_sequence<int, R...>) {
    return {Type::kValues,
            static_cast<int>(sizeof(typename Type::Block)),
            Type::kStripBytes,
            &pack_strip<Type>,
            {0, Family<Type, R + 1, 1>::kPanelBytes...},
            {nullptr, &Family<Type, R + 1, 1>::quantize...},
            {nullptr, &multiply_strip<Family, Type, R + 1>...}};
}

template <template <class, int, int> class Family, class Type>
constexpr Kernel kernel_of() {
    return kernel_of<Family, Type>(std::make_integer_sequence<int, kRows>());
}

}  // namespace specchat

#endif
