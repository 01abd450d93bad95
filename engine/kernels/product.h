// A product of packed weights and rows of floats, by the threads of ggml's pool.
#pragma once

#include "kernel.h"

#if SPECCHAT_SIMD

#include "ggml-cpu-impl.h"

SPECCHAT_KERNELS_BEGIN

// The kernel for this type of weights; null where there is none.
const Kernel* kernel_for(ggml_type type);

// Whether a tensor's weights can be packed.
bool can_pack(const ggml_tensor* weights);

// Bytes of `weights`, packed.
size_t packed_bytes(const ggml_tensor* weights);

// Packs `weights` from the bytes that a file has, into their own memory.
void pack(const ggml_tensor* weights, const uint8_t* file);

// Bytes that all threads together need for the rows of a MUL_MAT.
size_t work_bytes(const ggml_tensor* product);

// This thread's share of a MUL_MAT whose first source is packed.
void multiply(const ggml_compute_params* params, ggml_tensor* product);

}  // namespace specchat

#endif
