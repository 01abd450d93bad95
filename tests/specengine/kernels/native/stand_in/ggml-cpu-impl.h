// As much of ggml as the kernels use, so that they can be tried under sanitizers without the rest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

enum ggml_type {
    GGML_TYPE_F32 = 0,
    GGML_TYPE_F16 = 1,
    GGML_TYPE_Q4_0 = 2,
    GGML_TYPE_Q4_1 = 3,
    GGML_TYPE_Q5_0 = 6,
    GGML_TYPE_Q8_0 = 8,
    GGML_TYPE_Q4_K = 12,
    GGML_TYPE_Q5_K = 13,
    GGML_TYPE_Q6_K = 14,
};

constexpr int GGML_HINT_SRC0_IS_HADAMARD = 1;

struct ggml_tensor {
    ggml_type type;
    int64_t ne[4];
    size_t nb[4];
    ggml_tensor* src[3];
    void* data;
};

struct ggml_threadpool {
    int threads;
    std::atomic<int> waiting{0}, passed{0}, chunk{0};
};

struct ggml_compute_params {
    int ith, nth;
    size_t wsize;
    void* wdata;
    ggml_threadpool* threadpool;
};

inline int64_t ggml_nrows(const ggml_tensor* t) { return t->ne[1] * t->ne[2] * t->ne[3]; }
inline bool ggml_is_contiguous(const ggml_tensor*) { return true; }
inline int ggml_get_op_params_i32(const ggml_tensor*, int) { return 0; }
inline size_t ggml_type_size(ggml_type type) { return type == GGML_TYPE_F16 ? 2 : 4; }

inline void ggml_barrier(ggml_threadpool* pool) {
    const int passed = pool->passed;
    if (++pool->waiting == pool->threads) {
        pool->waiting = 0;
        ++pool->passed;
    } else {
        while (pool->passed == passed) {
        }
    }
}

inline void ggml_threadpool_chunk_set(ggml_threadpool* pool, int value) { pool->chunk = value; }
inline int ggml_threadpool_chunk_add(ggml_threadpool* pool, int n) {
    return pool->chunk.fetch_add(n);
}
