#include "rows.h"

#if SPECCHAT_SIMD

SPECCHAT_KERNELS_BEGIN

namespace {

template <class Pointer>
Pointer at(const ggml_tensor* tensor, int64_t i1, int64_t i2, int64_t i3) {
    return reinterpret_cast<Pointer>(static_cast<char*>(tensor->data) + i1 * tensor->nb[1] +
                                     i2 * tensor->nb[2] + i3 * tensor->nb[3]);
}

}  // namespace

Rows::Rows(const ggml_tensor* product) {
    const ggml_tensor *source = product->src[1], *ids = product->src[2];
    if (ids == nullptr) {
        for (int64_t i3 = 0; i3 < product->ne[3]; i3++) {
            for (int64_t i2 = 0; i2 < product->ne[2]; i2++) {
                for (int64_t i1 = 0; i1 < product->ne[1]; i1++) {
                    from.push_back(at<const float*>(source, i1, i2, i3));
                    to.push_back(at<float*>(product, i1, i2, i3));
                }
            }
        }
        add_group(0, 0, static_cast<int>(from.size()));
        return;
    }
    // Each token names its experts, each of which has a row of outputs; rows of inputs are shared
    // where there are fewer of them.
    std::vector<std::vector<int64_t>> of_expert(product->src[0]->ne[2]);
    for (int64_t token = 0; token < ids->ne[1]; token++) {
        for (int64_t slot = 0; slot < ids->ne[0]; slot++) {
            const auto* expert = at<const char*>(ids, token, 0, 0) + slot * ids->nb[0];
            of_expert[simd::four_bytes(expert)].push_back(token * ids->ne[0] + slot);
        }
    }
    for (size_t expert = 0; expert < of_expert.size(); expert++) {
        const int first = static_cast<int>(from.size());
        for (const int64_t i : of_expert[expert]) {
            const int64_t token = i / ids->ne[0], slot = i % ids->ne[0];
            from.push_back(at<const float*>(source, slot % source->ne[1], token, 0));
            to.push_back(at<float*>(product, slot, token, 0));
        }
        add_group(static_cast<int64_t>(expert), first, static_cast<int>(from.size()));
    }
}

// Cuts rows into panels as evenly as it goes: 9 are 5 and 4.
void Rows::add_group(int64_t matrix, int first, int end) {
    const int rows = end - first, count = (rows + kRows - 1) / kRows;
    if (rows == 0) return;
    const int before = static_cast<int>(panels.size());
    for (int i = 0, start = 0; i < count; i++) {
        const int size = (rows - start + count - i - 1) / (count - i);
        panels.push_back({first + start, size});
        start += size;
    }
    groups.push_back({matrix, before, before + count});
}

}  // namespace specchat

#endif
