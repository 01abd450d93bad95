// Makes the kernels known to ggml: a buffer type of the CPU backend whose tensors are packed.
//
// ggml has a list of such types for its own packed layouts, and llama.cpp puts each tensor into the
// first that takes it. This file puts one more into the list, from a static initializer: nothing of
// llama.cpp is changed. What it does not take (other types, shapes or operations) goes to the next.
#include "floats.h"
#include "product.h"

#if SPECCHAT_SIMD

#include <cstdlib>

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "traits.h"

#ifdef GGML_BACKEND_DL
extern "C" int ggml_backend_score(void);  // 0 where this CPU lacks what the library is built for
#endif

SPECCHAT_KERNELS_BEGIN

namespace {

ggml_backend_buffer_type* buffer_type();

class PackedWeights : public ggml::cpu::tensor_traits {
  public:
    bool work_size(int, const ggml_tensor* op, size_t& size) override {
        size = work_bytes(op);
        return true;
    }

    bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
        multiply(params, op);
        return true;
    }
};

// Needs no weights of ours: ggml asks each of its buffer types about every operation.
class FloatMatrices : public ggml::cpu::tensor_traits {
  public:
    bool work_size(int, const ggml_tensor*, size_t& size) override {
        size = 0;
        return true;
    }

    bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
        multiply_floats(params, op);
        return true;
    }
};

class PackedBuffers : public ggml::cpu::extra_buffer_type {
  public:
    bool supports_op(ggml_backend_dev_t, const ggml_tensor* op) override {
        if (!is_ours(op)) return false;
        const ggml_tensor* rows = op->src[1];
        const bool on_host = !rows->buffer || ggml_backend_buft_is_host(rows->buffer->buft);
        return on_host && can_multiply(op);
    }

    ggml::cpu::tensor_traits* get_tensor_traits(const ggml_tensor* op) override {
        if (is_ours(op)) return static_cast<PackedWeights*>(op->src[0]->extra);
        static FloatMatrices floats;
        return op->op == GGML_OP_MUL_MAT && can_multiply_floats(op) ? &floats : nullptr;
    }

  private:
    static bool is_ours(const ggml_tensor* op) {
        const bool product = op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID;
        return product && op->src[0]->buffer && op->src[0]->buffer->buft == buffer_type();
    }
};

ggml_status init_tensor(ggml_backend_buffer_t, ggml_tensor* tensor) {
    static PackedWeights packed;
    tensor->extra = can_pack(tensor) ? &packed : nullptr;
    return GGML_STATUS_SUCCESS;
}

void set_tensor(ggml_backend_buffer_t, ggml_tensor* tensor, const void* data, size_t offset,
                size_t size) {
    if (!can_pack(tensor)) {
        memcpy(static_cast<char*>(tensor->data) + offset, data, size);
        return;
    }
    GGML_ASSERT(offset == 0 && size == ggml_nbytes(tensor));  // strips are of whole rows
    pack(tensor, static_cast<const uint8_t*>(data));
}

const char* get_name(ggml_backend_buffer_type_t) { return "CPU_SPECCHAT"; }

size_t get_alignment(ggml_backend_buffer_type_t) { return 64; }

size_t get_alloc_size(ggml_backend_buffer_type_t, const ggml_tensor* tensor) {
    return can_pack(tensor) ? packed_bytes(tensor) : ggml_nbytes(tensor);
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer =
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (buffer == nullptr) return nullptr;
    buffer->buft = type;
    buffer->iface.init_tensor = init_tensor;
    buffer->iface.set_tensor = set_tensor;
    buffer->iface.get_tensor = nullptr;  // as it was in the file, it is nowhere any more
    buffer->iface.cpy_tensor = nullptr;
    return buffer;
}

ggml_backend_buffer_type* buffer_type() {
    static PackedBuffers packed;
    static ggml_backend_buffer_type type = {
        {get_name, alloc_buffer, get_alignment, nullptr, get_alloc_size, nullptr},
        ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
        &packed,
    };
    return &type;
}

bool wanted() {
    const char* value = getenv("SPECCHAT_KERNELS");
    return value == nullptr || strcmp(value, "off") != 0;
}

// A build for many CPUs opens each of its libraries to ask whether it can run here, and this runs
// before the answer: so it asks first, and does nothing that needs more than any CPU has.
bool can_run() {
#ifdef GGML_BACKEND_DL
    return ggml_backend_score() != 0;
#else
    return true;
#endif
}

// Behind AMX, where a CPU has that: which of the two is faster there has not been measured.
bool add_to_list() {
    if (!wanted() || !can_run()) return false;
    auto& types = ggml_backend_cpu_get_extra_buffer_types();
    auto place = types.begin();
    while (place != types.end() && strcmp(ggml_backend_buft_name(*place), "AMX") == 0) ++place;
    types.insert(place, buffer_type());
    return true;
}

[[maybe_unused]] const bool added = add_to_list();

}  // namespace

}  // namespace specchat

#endif
