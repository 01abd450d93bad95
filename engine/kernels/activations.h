// Rows of activations as signed bytes: a block of each row is scaled by its largest magnitude.
//
// The bytes of a row depend on nothing but its block. A block with an infinity or a NaN gets that
// as its scale, so what it is multiplied to is no number either, in this row alone.
#pragma once

#include "kernel.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

// Quantizes kValues numbers, `*bytes * scale`; returns the scale. The bytes are written in runs of
// 32, `stride` apart.
template <int kValues>
SPECCHAT_INLINE float quantize_row(const float* row, int8_t* bytes, int stride) {
    using namespace simd;
    Ints magnitude = no_ints();
    for (int k = 0; k < kValues; k += kLanes) magnitude = larger(magnitude, magnitudes(row + k));
    const int32_t bits = largest(magnitude);
    float top;
    memcpy(&top, &bits, sizeof top);
    // Below this its inverse would be infinite: so small a block counts as zero.
    const float inverse = top < 1e-36F ? 0.0F : 127.0F / top;
    for (int k = 0; k < kValues; k += kLanes) {
        const Floats scaled = times(load_floats(row + k), floats(inverse));
        store_rounded(bytes + k / 32 * stride + k % 32, scaled);
    }
    return top / 127.0F;
}

SPECCHAT_INLINE int32_t sum_of(const int8_t* bytes, int n) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += bytes[i];
    return sum;
}

}  // namespace specchat

#endif
