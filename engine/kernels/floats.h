// Products of matrices that are not quantized: attention's with the keys and the values, and those
// of weights in floating point.
//
// ggml computes a single row in another way than two or more, and rounds it differently. Here each
// output is one sequence of operations: kLanes sums that are added at the end, in one order.
#pragma once

#include "simd.h"

#if SPECCHAT_SIMD

#include "ggml-cpu-impl.h"

SPECCHAT_KERNELS_BEGIN

// Whether a MUL_MAT is one of these.
bool can_multiply_floats(const ggml_tensor* product);

// This thread's share of it.
void multiply_floats(const ggml_compute_params* params, ggml_tensor* product);

}  // namespace specchat

#endif
