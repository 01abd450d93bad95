#include "floats.h"

#if SPECCHAT_SIMD

#include <algorithm>
#include <utility>

SPECCHAT_KERNELS_BEGIN

namespace {

constexpr int kOutputs = 4;                         // that are computed at once
constexpr int kAtOnce = SPECCHAT_SIMD == 512 ? 6 : 2;  // rows
constexpr int kStretch = 64;  // rows that all outputs are computed of before the next

struct Half {
    static SPECCHAT_INLINE simd::Floats load(const char* p, int64_t k) {
        return simd::halves(p + 2 * k);
    }
};

struct Float {
    static SPECCHAT_INLINE simd::Floats load(const char* p, int64_t k) {
        return simd::load_floats(reinterpret_cast<const float*>(p) + k);
    }
};

// `OUTPUTS` rows of a matrix, `stride` bytes apart, times ROWS rows of floats; `to` of each row.
template <class Element, int OUTPUTS, int ROWS>
void multiply_some(const char* matrix, size_t stride, const float* const* rows, int64_t inputs,
                   float* const* to) {
    using namespace simd;
    Floats sums[OUTPUTS][ROWS];
    SPECCHAT_UNROLL
    for (int output = 0; output < OUTPUTS; output++) {
        SPECCHAT_UNROLL
        for (int row = 0; row < ROWS; row++) sums[output][row] = no_floats();
    }
    for (int64_t k = 0; k < inputs; k += kLanes) {
        Floats values[ROWS];
        SPECCHAT_UNROLL
        for (int row = 0; row < ROWS; row++) values[row] = load_floats(rows[row] + k);
        SPECCHAT_UNROLL
        for (int output = 0; output < OUTPUTS; output++) {
            const Floats weights = Element::load(matrix + output * stride, k);
            SPECCHAT_UNROLL
            for (int row = 0; row < ROWS; row++) {
                sums[output][row] = fused(weights, values[row], sums[output][row]);
            }
        }
    }
    SPECCHAT_UNROLL
    for (int row = 0; row < ROWS; row++) {
        SPECCHAT_UNROLL
        for (int output = 0; output < OUTPUTS; output++) {
            to[row][output] = sum_of_lanes(sums[output][row]);
        }
    }
}

using MultiplySome = void (*)(const char*, size_t, const float* const*, int64_t, float* const*);

template <class Element, int OUTPUTS, int... R>
MultiplySome for_rows(int rows, std::integer_sequence<int, R...>) {
    static constexpr MultiplySome kFor[] = {&multiply_some<Element, OUTPUTS, R + 1>...};
    return kFor[rows - 1];
}

MultiplySome kernel_for(ggml_type type, bool many_outputs, int rows) {
    const auto some = std::make_integer_sequence<int, kAtOnce>();
    if (many_outputs) {
        return type == GGML_TYPE_F32 ? for_rows<Float, kOutputs>(rows, some)
                                     : for_rows<Half, kOutputs>(rows, some);
    }
    return type == GGML_TYPE_F32 ? for_rows<Float, 1>(rows, some) : for_rows<Half, 1>(rows, some);
}

// A matrix of the product's first source, and all rows that it is multiplied with: those of every
// head of attention that shares its keys and values.
struct Heads {
    const ggml_tensor *matrices, *rows, *out;
    const char* matrix;
    int64_t heads, head, i3;

    Heads(const ggml_tensor* product, int64_t index)
        : matrices(product->src[0]), rows(product->src[1]), out(product) {
        const int64_t i02 = index % matrices->ne[2];
        const int64_t i03 = index / matrices->ne[2] % matrices->ne[3];
        matrix = static_cast<const char*>(matrices->data) + i02 * matrices->nb[2] +
                 i03 * matrices->nb[3];
        heads = rows->ne[2] / matrices->ne[2];
        head = i02 * heads;
        // Matrices that are shared in the fourth dimension too are gone through again.
        i3 = i03 * (rows->ne[3] / matrices->ne[3]) + index / matrices->ne[2] / matrices->ne[3];
    }

    int64_t count() const { return heads * rows->ne[1]; }

    template <class Pointer>
    Pointer row(const ggml_tensor* tensor, int64_t i) const {
        const int64_t i1 = i % rows->ne[1], i2 = head + i / rows->ne[1];
        return reinterpret_cast<Pointer>(static_cast<char*>(tensor->data) + i1 * tensor->nb[1] +
                                         i2 * tensor->nb[2] + i3 * tensor->nb[3]);
    }

    // Outputs `from` to `to` of rows `start` to `end`.
    void multiply(int64_t from, int64_t to, int64_t start, int64_t end) const {
        for (int64_t output = from; output < to;) {
            const bool many = output + kOutputs <= to;
            for (int64_t i = start; i < end; i += kAtOnce) {
                const int n = static_cast<int>(std::min<int64_t>(kAtOnce, end - i));
                const float* values[kAtOnce];
                float* results[kAtOnce];
                for (int r = 0; r < n; r++) {
                    values[r] = row<const float*>(rows, i + r);
                    results[r] = row<float*>(out, i + r) + output;
                }
                kernel_for(matrices->type, many, n)(matrix + output * matrices->nb[1],
                                                    matrices->nb[1], values, matrices->ne[0],
                                                    results);
            }
            output += many ? kOutputs : 1;
        }
    }
};

}  // namespace

bool can_multiply_floats(const ggml_tensor* product) {
    const ggml_tensor *matrices = product->src[0], *rows = product->src[1];
    const bool known = matrices->type == GGML_TYPE_F16 || matrices->type == GGML_TYPE_F32;
    const bool plain = ggml_get_op_params_i32(product, 1) != GGML_HINT_SRC0_IS_HADAMARD;
    return known && plain && rows->type == GGML_TYPE_F32 && matrices->ne[0] % simd::kLanes == 0 &&
           matrices->nb[0] == ggml_type_size(matrices->type) && rows->nb[0] == sizeof(float);
}

void multiply_floats(const ggml_compute_params* params, ggml_tensor* product) {
    const int64_t outputs = product->ne[0];
    const int64_t groups = product->src[0]->ne[2] * product->src[1]->ne[3];
    // Shares end between blocks of outputs, a whole cache line of the result each.
    const int64_t line = 16, lines = (outputs + line - 1) / line, all = groups * lines;
    const int64_t from = all * params->ith / params->nth;
    const int64_t to = all * (params->ith + 1) / params->nth;
    for (int64_t i = from; i < to;) {
        const Heads group(product, i / lines);
        const int64_t first = i % lines, last = std::min(lines, first + to - i);
        for (int64_t start = 0; start < group.count(); start += kStretch) {
            const int64_t end = std::min(group.count(), start + kStretch);
            group.multiply(first * line, std::min(outputs, last * line), start, end);
        }
        i += last - first;
    }
}

}  // namespace specchat

#endif
