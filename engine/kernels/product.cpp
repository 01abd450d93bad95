#include "product.h"

#if SPECCHAT_SIMD

#include <algorithm>
#include <thread>
#include <vector>

#include "rows.h"

SPECCHAT_KERNELS_BEGIN

namespace {

constexpr size_t kWorthThreads = 1 << 20;  // bytes that are packed by more than one thread
constexpr int kChunks = 8;                 // of strips, for each thread

// Sizes of packed weights.
struct Packed {
    const Kernel& kernel;
    int outputs, blocks, strips;
    int64_t matrices;
    size_t strip_bytes, matrix_bytes;

    explicit Packed(const ggml_tensor* weights)
        : kernel(*kernel_for(weights->type)),
          outputs(static_cast<int>(weights->ne[1])),
          blocks(static_cast<int>(weights->ne[0] / kernel.values)),
          strips((outputs + kStrip - 1) / kStrip),
          matrices(weights->ne[2]),
          strip_bytes(static_cast<size_t>(blocks) * kernel.strip_bytes),
          matrix_bytes(strips * strip_bytes) {}

    int outputs_of(int strip) const { return std::min(kStrip, outputs - strip * kStrip); }
    size_t panel_bytes(int rows) const {
        return static_cast<size_t>(rows) * blocks * kernel.row_bytes;
    }
};

// Quantizes blocks `start` to `end` of all rows into `panels`, which lie one after the other.
void quantize(const Packed& packed, const Rows& rows, int start, int end, uint8_t* panels) {
    const Kernel& kernel = packed.kernel;
    for (const Panel& panel : rows.panels) {
        uint8_t* to = panels + packed.panel_bytes(panel.first);
        const float* from[kRows];
        for (int row = 0; row < panel.rows; row++) {
            from[row] = rows.from[panel.first + row] + static_cast<int64_t>(start) * kernel.values;
        }
        for (int block = start; block < end; block++) {
            const size_t offset = static_cast<size_t>(block) * panel.rows * kernel.row_bytes;
            kernel.quantize[panel.rows](from, to + offset);
            for (int row = 0; row < panel.rows; row++) from[row] += kernel.values;
        }
    }
}

// The outputs that a strip of a matrix has for all of a group's rows.
void multiply_strip(const Packed& packed, const Rows& rows, const Group& group, int strip,
                    const uint8_t* matrix, const uint8_t* panels) {
    const int outputs = packed.outputs_of(strip);
    for (int i = group.first_panel; i < group.end_panel; i++) {
        const Panel& panel = rows.panels[i];
        float spare[kRows][kStrip];  // for a last strip that is not full
        float *to[kRows], *results[kRows];
        for (int row = 0; row < panel.rows; row++) {
            to[row] = rows.to[panel.first + row] + strip * kStrip;
            results[row] = outputs == kStrip ? to[row] : spare[row];
        }
        packed.kernel.multiply[panel.rows](matrix + strip * packed.strip_bytes,
                                           panels + packed.panel_bytes(panel.first),
                                           packed.blocks, results);
        if (outputs == kStrip) continue;
        for (int row = 0; row < panel.rows; row++) {
            memcpy(to[row], spare[row], outputs * sizeof(float));
        }
    }
}

}  // namespace

const Kernel* kernel_for(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_0: return &q4_0;
        case GGML_TYPE_Q4_1: return &q4_1;
        case GGML_TYPE_Q5_0: return &q5_0;
        case GGML_TYPE_Q8_0: return &q8_0;
        case GGML_TYPE_Q4_K: return &q4_k;
        case GGML_TYPE_Q5_K: return &q5_k;
        case GGML_TYPE_Q6_K: return &q6_k;
        default: return nullptr;
    }
}

bool can_pack(const ggml_tensor* weights) {
    const Kernel* kernel = kernel_for(weights->type);
    return kernel != nullptr && weights->ne[3] == 1 && ggml_is_contiguous(weights) &&
           weights->ne[0] % kernel->values == 0;
}

size_t packed_bytes(const ggml_tensor* weights) {
    const Packed packed(weights);
    return packed.matrices * packed.matrix_bytes;
}

void pack(const ggml_tensor* weights, const uint8_t* file) {
    const Packed packed(weights);
    const size_t row_bytes = static_cast<size_t>(packed.blocks) * packed.kernel.file_bytes;
    auto* const strips = static_cast<uint8_t*>(weights->data);
    const auto some = [&](int64_t start, int64_t end) {
        for (int64_t i = start; i < end; i++) {
            const int strip = static_cast<int>(i % packed.strips);
            const int64_t row = i / packed.strips * packed.outputs + strip * kStrip;
            packed.kernel.pack(file + row * row_bytes, row_bytes, packed.outputs_of(strip),
                               packed.blocks, strips + i * packed.strip_bytes);
        }
    };
    const int64_t all = packed.matrices * packed.strips;
    const bool large = packed_bytes(weights) >= kWorthThreads;
    const int n = large ? std::clamp<int>(std::thread::hardware_concurrency(), 1, 8) : 1;
    std::vector<std::thread> others;
    for (int i = 1; i < n; i++) others.emplace_back(some, all * i / n, all * (i + 1) / n);
    some(0, all / n);
    for (std::thread& other : others) other.join();
}

bool can_multiply(const ggml_tensor* product) {
    const ggml_tensor *weights = product->src[0], *rows = product->src[1];
    const bool alone = weights->ne[2] == 1 || product->src[2] != nullptr;
    return can_pack(weights) && alone && rows->type == GGML_TYPE_F32 &&
           rows->nb[0] == sizeof(float);
}

size_t work_bytes(const ggml_tensor* product) {
    return Packed(product->src[0]).panel_bytes(static_cast<int>(ggml_nrows(product)));
}

void multiply(const ggml_compute_params* params, ggml_tensor* product) {
    const Packed packed(product->src[0]);
    const Rows rows(product);
    const auto* weights = static_cast<const uint8_t*>(product->src[0]->data);
    auto* panels = static_cast<uint8_t*>(params->wdata);
    const int thread = params->ith, threads = params->nth;
    quantize(packed, rows, packed.blocks * thread / threads, packed.blocks * (thread + 1) / threads,
             panels);
    // The first chunk of each thread is its own, the others go to whoever is there first: a slow
    // core, or one that other programs use, does not hold up the rest.
    if (thread == 0) ggml_threadpool_chunk_set(params->threadpool, threads);
    ggml_barrier(params->threadpool);
    const int strips = static_cast<int>(rows.groups.size()) * packed.strips;
    const int chunk = std::max(1, strips / (threads * kChunks));
    for (int i = thread; i * chunk < strips; i = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        for (int strip = i * chunk; strip < std::min(strips, (i + 1) * chunk); strip++) {
            const Group& group = rows.groups[strip / packed.strips];
            multiply_strip(packed, rows, group, strip % packed.strips,
                           weights + group.matrix * packed.matrix_bytes, panels);
        }
    }
}

}  // namespace specchat

#endif
