// Products of random shapes, with buffers that end where the numbers do: meant to be compiled with
// sanitizers. Fails where a row is not what it is alone.
//
//     fuzz SEED ROUNDS
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "floats.h"
#include "product.h"

namespace {

std::mt19937 generator;

int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }

struct Aligned {
    void operator()(uint8_t* p) const { operator delete[](p, std::align_val_t(64)); }
};
using Bytes = std::unique_ptr<uint8_t[], Aligned>;

Bytes bytes(size_t n) {
    return Bytes(static_cast<uint8_t*>(operator new[](n, std::align_val_t(64))));
}

ggml_tensor tensor(ggml_type type, int64_t inputs, int64_t n1, int64_t n2, void* data) {
    const size_t size = ggml_type_size(type);
    return {type, {inputs, n1, n2, 1}, {size, inputs * size, inputs * n1 * size,
            inputs * n1 * n2 * size}, {}, data};
}

using Multiply = void (*)(const ggml_compute_params*, ggml_tensor*);

std::vector<float> product(Multiply multiply, ggml_tensor& matrix, ggml_tensor& rows, int threads,
                           size_t work, ggml_tensor* ids = nullptr) {
    std::vector<float> result(matrix.ne[1] * ggml_nrows(&rows), 1e9F);
    ggml_tensor out = tensor(GGML_TYPE_F32, matrix.ne[1], rows.ne[1], rows.ne[2], result.data());
    out.src[0] = &matrix;
    out.src[1] = &rows;
    out.src[2] = ids;
    if (work != 0) work = specchat::work_bytes(&out);
    const Bytes memory = bytes(work);
    ggml_threadpool pool{threads};
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++) {
        all.emplace_back([&, i] {
            const ggml_compute_params params{i, threads, work, memory.get(), &pool};
            multiply(&params, &out);
        });
    }
    for (std::thread& thread : all) thread.join();
    return result;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Whether each row's outputs are what they are without the others.
bool rows_agree(Multiply multiply, ggml_tensor& matrix, std::vector<float>& values, int n1, int n2,
                size_t work) {
    const int64_t inputs = matrix.ne[0], outputs = matrix.ne[1];
    ggml_tensor rows = tensor(GGML_TYPE_F32, inputs, n1, n2, values.data());
    const std::vector<float> together = product(multiply, matrix, rows, between(1, 4), work);
    for (int i = 0; i < n1 * n2; i++) {
        const size_t head = i / n1 * matrix.ne[2] / n2;
        ggml_tensor one = tensor(matrix.type, inputs, outputs, 1,
                                 static_cast<char*>(matrix.data) + head * matrix.nb[2]);
        ggml_tensor row = tensor(GGML_TYPE_F32, inputs, 1, 1, values.data() + i * inputs);
        const std::vector<float> alone = product(multiply, one, row, 1, work);
        for (int64_t k = 0; k < outputs; k++) {
            if (!same(alone[k], together[i * outputs + k])) return false;
        }
    }
    return true;
}

std::vector<float> numbers(size_t n) {
    std::vector<float> result(n);
    std::normal_distribution<float> normal;
    for (float& x : result) x = normal(generator);
    const float odd[] = {INFINITY, -INFINITY, NAN, 3e38F, 1e-42F, 0.0F};
    if (between(0, 3) == 0) result[between(0, static_cast<int>(n) - 1)] = odd[between(0, 5)];
    return result;
}

bool try_packed() {
    const ggml_type types[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q8_0,
                               GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
    const ggml_type type = types[between(0, 6)];
    const specchat::Kernel* kernel = specchat::kernel_for(type);
    if (kernel == nullptr) return true;  // on this CPU
    const int blocks = between(1, 5), outputs = between(1, 100);
    const size_t size = static_cast<size_t>(blocks) * outputs * kernel->file_bytes;
    const Bytes file = bytes(size);
    for (size_t i = 0; i < size; i++) file[i] = static_cast<uint8_t>(between(0, 255));
    ggml_tensor matrix = tensor(type, blocks * kernel->values, outputs, 1, nullptr);
    const Bytes packed = bytes(specchat::packed_bytes(&matrix));
    matrix.data = packed.get();
    specchat::pack(&matrix, file.get());
    const int n1 = between(1, 20), n2 = between(1, 3);
    std::vector<float> values = numbers(static_cast<size_t>(n1) * n2 * matrix.ne[0]);
    return rows_agree(specchat::multiply, matrix, values, n1, n2, 1);
}

// Tokens that name experts, each with a matrix of its own, against those experts' matrices alone.
bool try_experts() {
    const int experts = between(1, 4), tokens = between(1, 20), slots = between(1, experts);
    const specchat::Kernel* kernel = specchat::kernel_for(GGML_TYPE_Q4_0);
    const int blocks = between(1, 5), outputs = between(1, 70), inputs = blocks * kernel->values;
    const size_t size = static_cast<size_t>(experts) * blocks * outputs * kernel->file_bytes;
    const Bytes file = bytes(size);
    for (size_t i = 0; i < size; i++) file[i] = static_cast<uint8_t>(between(0, 255));
    ggml_tensor matrices = tensor(GGML_TYPE_Q4_0, inputs, outputs, experts, nullptr);
    const Bytes packed = bytes(specchat::packed_bytes(&matrices));
    matrices.data = packed.get();
    specchat::pack(&matrices, file.get());
    std::vector<int32_t> chosen;
    for (int i = 0; i < tokens * slots; i++) chosen.push_back((i / slots + i % slots) % experts);
    ggml_tensor ids = tensor(GGML_TYPE_F32, slots, tokens, 1, chosen.data());
    std::vector<float> values = numbers(static_cast<size_t>(tokens) * slots * inputs);
    ggml_tensor rows = tensor(GGML_TYPE_F32, inputs, slots, tokens, values.data());
    const std::vector<float> all =
        product(specchat::multiply, matrices, rows, between(1, 4), 1, &ids);
    const size_t matrix_bytes = specchat::packed_bytes(&matrices) / experts;
    for (int i = 0; i < tokens * slots; i++) {
        ggml_tensor one = tensor(GGML_TYPE_Q4_0, inputs, outputs, 1,
                                 packed.get() + chosen[i] * matrix_bytes);
        ggml_tensor row = tensor(GGML_TYPE_F32, inputs, 1, 1, values.data() + i * inputs);
        const std::vector<float> alone = product(specchat::multiply, one, row, 1, 1);
        for (int k = 0; k < outputs; k++) {
            if (!same(alone[k], all[i * outputs + k])) return false;
        }
    }
    return true;
}

bool try_floats() {
    const ggml_type type = between(0, 1) == 0 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    const int inputs = 16 * between(1, 9), outputs = between(1, 70), heads = between(1, 3);
    const int n1 = between(1, 20), n2 = heads * between(1, 3);
    const size_t size = ggml_type_size(type) * inputs * outputs * heads;
    const Bytes stored = bytes(size);
    for (size_t i = 0; i < size; i++) stored[i] = static_cast<uint8_t>(between(0, 255));
    ggml_tensor matrix = tensor(type, inputs, outputs, heads, stored.get());
    std::vector<float> values = numbers(static_cast<size_t>(n1) * n2 * inputs);
    return rows_agree(specchat::multiply_floats, matrix, values, n1, n2, 0);
}

}  // namespace

int main(int, char** arguments) {
    generator.seed(static_cast<unsigned>(atoi(arguments[1])));
    const int rounds = atoi(arguments[2]);
    for (int i = 0; i < rounds; i++) {
        const int kind = i % 4;
        if (!(kind == 0 ? try_floats() : kind == 1 ? try_experts() : try_packed())) {
            printf("round %d: a row is not what it is alone\n", i);
            return 1;
        }
    }
    printf("%d products\n", rounds);
    return 0;
}
