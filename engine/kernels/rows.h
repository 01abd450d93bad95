// Which rows a product has, and which matrix each is multiplied with.
#pragma once

#include "kernel.h"

#if SPECCHAT_SIMD

#include <vector>

#include "ggml-cpu-impl.h"

SPECCHAT_KERNELS_BEGIN

// Rows that go through a kernel together: `rows` of them from `first` on.
struct Panel {
    int first, rows;
};

// Panels that are multiplied with the same matrix.
struct Group {
    int64_t matrix;
    int first_panel, end_panel;
};

// The rows of a MUL_MAT, or those of a MUL_MAT_ID in the order of their experts. Every thread finds
// the same.
struct Rows {
    std::vector<const float*> from;
    std::vector<float*> to;
    std::vector<Panel> panels;
    std::vector<Group> groups;

    explicit Rows(const ggml_tensor* product);

  private:
    void add_group(int64_t matrix, int first, int end);
};

}  // namespace specchat

#endif
