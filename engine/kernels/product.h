// Products of packed weights and rows of floats, by the threads of ggml's pool.
#pragma once

#include "kernel.h"

#if SPECCHAT_SIMD

#include "ggml-cpu-impl.h"

SPECCHAT_KERNELS_BEGIN

// The kernel for this type of weights; null where there is none.
const Kernel* kernel_for(ggml_type type);

// Whether a tensor's weights can be packed: a matrix, or one for each expert.
bool can_pack(const ggml_tensor* weights);

// Bytes of `weights`, packed.
size_t packed_bytes(const ggml_tensor* weights);

// Packs `weights` from the bytes that a file has, into their own memory.
void pack(const ggml_tensor* weights, const uint8_t* file);

// Whether a MUL_MAT or MUL_MAT_ID of packed weights can be computed.
bool can_multiply(const ggml_tensor* product);

// Bytes that all threads together need for its rows.
size_t work_bytes(const ggml_tensor* product);

// This thread's share of it.
void multiply(const ggml_compute_params* params, ggml_tensor* product);

}  // namespace specchat

#endif
