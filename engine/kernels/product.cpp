#include "product.h"

#if SPECCHAT_SIMD

#include <algorithm>
#include <thread>
#include <vector>

SPECCHAT_KERNELS_BEGIN

namespace {

constexpr size_t kWorthThreads = 1 << 20;  // bytes that are packed by more than one thread
constexpr int kChunks = 8;                 // of strips, for each thread

int strips_of(const ggml_tensor* weights) {
    return static_cast<int>((weights->ne[1] + kStrip - 1) / kStrip);
}

// How n rows are cut into panels, as evenly as it goes: 9 are 5 and 4.
struct Panels {
    int rows;

    int count() const { return (rows + kRows - 1) / kRows; }
    int start(int panel) const {
        return static_cast<int>(static_cast<int64_t>(rows) * panel / count());
    }
    int size(int panel) const { return start(panel + 1) - start(panel); }
};

// Row `i` of a tensor's rows, in the order of its memory.
char* row_of(const ggml_tensor* tensor, int64_t i) {
    const int64_t i1 = i % tensor->ne[1], i2 = i / tensor->ne[1] % tensor->ne[2];
    const int64_t i3 = i / tensor->ne[1] / tensor->ne[2];
    return static_cast<char*>(tensor->data) + i1 * tensor->nb[1] + i2 * tensor->nb[2] +
           i3 * tensor->nb[3];
}

// One product as its threads see it.
struct Product {
    const Kernel& kernel;
    const ggml_tensor *weights, *rows, *out;
    uint8_t* work;
    int blocks;
    Panels panels;

    Product(const ggml_tensor* op, void* memory)
        : kernel(*kernel_for(op->src[0]->type)),
          weights(op->src[0]),
          rows(op->src[1]),
          out(op),
          work(static_cast<uint8_t*>(memory)),
          blocks(static_cast<int>(weights->ne[0] / kernel.values)),
          panels{static_cast<int>(ggml_nrows(rows))} {}

    // All panels lie one after the other.
    size_t panel_offset(int panel) const {
        size_t offset = 0;
        for (int i = 0; i < panel; i++) offset += panel_size(i);
        return offset;
    }
    size_t panel_size(int panel) const {
        return static_cast<size_t>(blocks) * kernel.panel_bytes[panels.size(panel)];
    }

    // Blocks `from` to `to` of all rows.
    void quantize(int from, int to) const {
        uint8_t* panel = work;
        for (int i = 0; i < panels.count(); i++) {
            const int n = panels.size(i);
            const float* start[kRows];
            for (int row = 0; row < n; row++) {
                const auto* whole = reinterpret_cast<float*>(row_of(rows, panels.start(i) + row));
                start[row] = whole + static_cast<int64_t>(from) * kernel.values;
            }
            for (int block = from; block < to; block++) {
                kernel.quantize[n](start, panel + static_cast<size_t>(block) * kernel.panel_bytes[n]);
                for (int row = 0; row < n; row++) start[row] += kernel.values;
            }
            panel += panel_size(i);
        }
    }

    // All rows' outputs of a strip.
    void multiply(int strip) const {
        const auto* packed = static_cast<const uint8_t*>(weights->data) +
                             static_cast<size_t>(strip) * blocks * kernel.strip_bytes;
        const int first = strip * kStrip;
        const int outputs = std::min<int>(kStrip, static_cast<int>(weights->ne[1]) - first);
        const uint8_t* panel = work;
        for (int i = 0; i < panels.count(); i++) {
            const int n = panels.size(i);
            float spare[kRows][kStrip];  // of a last strip that is not full
            float *to[kRows], *results[kRows];
            for (int row = 0; row < n; row++) {
                to[row] = reinterpret_cast<float*>(row_of(out, panels.start(i) + row)) + first;
                results[row] = outputs == kStrip ? to[row] : spare[row];
            }
            kernel.multiply[n](packed, panel, blocks, results);
            if (outputs < kStrip) {
                for (int row = 0; row < n; row++) {
                    memcpy(to[row], spare[row], outputs * sizeof(float));
                }
            }
            panel += panel_size(i);
        }
    }
};

}  // namespace

const Kernel* kernel_for(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_0: return &q4_0;
        case GGML_TYPE_Q4_1: return &q4_1;
        case GGML_TYPE_Q5_0: return &q5_0;
        case GGML_TYPE_Q8_0: return simd::kExactBytes ? &q8_0 : nullptr;
        case GGML_TYPE_Q4_K: return &q4_k;
        case GGML_TYPE_Q5_K: return &q5_k;
        case GGML_TYPE_Q6_K: return &q6_k;
        default: return nullptr;
    }
}

bool can_pack(const ggml_tensor* weights) {
    const Kernel* kernel = kernel_for(weights->type);
    return kernel != nullptr && weights->ne[2] * weights->ne[3] == 1 && ggml_is_contiguous(weights) &&
           weights->ne[0] % kernel->values == 0;
}

size_t packed_bytes(const ggml_tensor* weights) {
    const Kernel& kernel = *kernel_for(weights->type);
    return static_cast<size_t>(weights->ne[0] / kernel.values) * strips_of(weights) *
           kernel.strip_bytes;
}

void pack(const ggml_tensor* weights, const uint8_t* file) {
    const Kernel& kernel = *kernel_for(weights->type);
    const int blocks = static_cast<int>(weights->ne[0] / kernel.values);
    const int outputs = static_cast<int>(weights->ne[1]), strips = strips_of(weights);
    const size_t row_bytes = static_cast<size_t>(blocks) * kernel.file_bytes;
    const size_t strip_bytes = static_cast<size_t>(blocks) * kernel.strip_bytes;
    const auto some = [&](int from, int to) {
        for (int strip = from; strip < to; strip++) {
            const int first = strip * kStrip;
            kernel.pack(file + first * row_bytes, row_bytes, std::min(kStrip, outputs - first),
                        blocks, static_cast<uint8_t*>(weights->data) + strip * strip_bytes);
        }
    };
    const bool large = packed_bytes(weights) >= kWorthThreads;
    const int n = large ? std::clamp<int>(std::thread::hardware_concurrency(), 1, 8) : 1;
    std::vector<std::thread> others;
    for (int i = 1; i < n; i++) others.emplace_back(some, strips * i / n, strips * (i + 1) / n);
    some(0, strips / n);
    for (std::thread& other : others) other.join();
}

size_t work_bytes(const ggml_tensor* product) {
    const Product whole(product, nullptr);
    return whole.panel_offset(whole.panels.count());
}

void multiply(const ggml_compute_params* params, ggml_tensor* product) {
    const Product whole(product, params->wdata);
    const int thread = params->ith, threads = params->nth;
    whole.quantize(whole.blocks * thread / threads, whole.blocks * (thread + 1) / threads);
    // The first chunk of each thread is its own, the others go to whoever is there first: a slow
    // core, or one that other programs use, does not hold up the rest.
    if (thread == 0) ggml_threadpool_chunk_set(params->threadpool, threads);
    ggml_barrier(params->threadpool);
    const int strips = strips_of(whole.weights);
    const int chunk = std::max(1, strips / (threads * kChunks));
    for (int i = thread; i * chunk < strips; i = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        for (int strip = i * chunk; strip < std::min(strips, (i + 1) * chunk); strip++) {
            whole.multiply(strip);
        }
    }
}

}  // namespace specchat

#endif
