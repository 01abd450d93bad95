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

template <int ROWS>
using Sums = simd::Ints[2][ROWS];  // of tiles A and B

template <class Type, int ROWS>
SPECCHAT_INLINE void add_step(const simd::Ints (&weights)[2], const uint8_t* values,
                              Sums<ROWS>& sums) {
    SPECCHAT_UNROLL
    for (int row = 0; row < ROWS; row++) {
        const simd::Ints four = simd::spread(values + 32 * row);
        SPECCHAT_UNROLL
        for (int tile = 0; tile < 2; tile++) {
            simd::Ints& sum = sums[tile][row];
            sum = Type::kWide ? simd::dot_wide(sum, weights[tile], four)
                              : simd::dot(sum, weights[tile], four);
        }
    }
}

template <class Type, int I, int ROWS>
SPECCHAT_INLINE void add_two_steps(const uint8_t* weights, const uint8_t* values,
                                   Sums<ROWS>& sums) {
    simd::Ints first[2], second[2];
    SPECCHAT_UNROLL
    for (int tile = 0; tile < 2; tile++) {
        Type::template unpack<I>(weights + tile * Type::kRunBytes, first[tile], second[tile]);
    }
    add_step<Type, ROWS>(first, values + 8 * I, sums);
    add_step<Type, ROWS>(second, values + 8 * I + 4, sums);
}

// Adds the products of a run of 32 values, or of the pairs of its steps that `I` names. `weights`
// points to the first tile's run, `values` to the first row's.
template <class Type, int ROWS, int... I>
SPECCHAT_INLINE void add_run(const uint8_t* weights, const uint8_t* values,
                             Sums<ROWS>& sums, std::integer_sequence<int, I...>) {
    (add_two_steps<Type, I, ROWS>(weights, values, sums), ...);
}

using WholeRun = std::integer_sequence<int, 0, 1, 2, 3>;
using FirstHalf = std::integer_sequence<int, 0, 1>;
using SecondHalf = std::integer_sequence<int, 2, 3>;

template <template <class, int> class Family, class Type, int... R>
constexpr Kernel kernel_of(std::integer_sequence<int, R...>) {
    return {Type::kValues,
            static_cast<int>(sizeof(typename Type::Block)),
            Type::kStripBytes,
            Family<Type, 1>::kPanelBytes,
            &pack_strip<Type>,
            {nullptr, &Family<Type, R + 1>::quantize...},
            {nullptr, &Family<Type, R + 1>::multiply...}};
}

template <template <class, int> class Family, class Type>
constexpr Kernel kernel_of() {
    return kernel_of<Family, Type>(std::make_integer_sequence<int, kRows>());
}

}  // namespace specchat

#endif
