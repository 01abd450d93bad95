// What the room has for a type of weights, and how the weights and activations lie in memory.
//
// A *strip* is what the kernels read in one go: the weights of two *tiles* of kLanes outputs each,
// block after block of `values` of their inputs. A *panel* is up to kRows rows of activations,
// quantized to bytes. A kernel multiplies a strip by a panel.
#pragma once

#include "simd.h"

#if SPECCHAT_SIMD

#include <cstddef>

SPECCHAT_KERNELS_BEGIN

constexpr int kTile = simd::kLanes;   // outputs
constexpr int kStrip = 2 * kTile;     // outputs
constexpr int kRows = SPECCHAT_SIMD == 512 ? 8 : 6;
constexpr int kHalves = 2 * kStrip;  // bytes of a line of 16-bit floats, one for each output

// Quantizes `rows[0]`…, `values` inputs of each, into a block of a panel of so many rows.
using Quantize = void (*)(const float* const* rows, uint8_t* block);

// Sums over all `blocks` of a strip, kStrip outputs for each row of the panel, into `out[row]`.
using Multiply = void (*)(const uint8_t* strip, const uint8_t* panel, int blocks,
                          float* const* out);

struct Kernel {
    int values;       // inputs in a block, of the file, a strip or a panel
    int file_bytes;   // of a block of one output in the file
    int strip_bytes;  // of a block of kStrip outputs
    int row_bytes;    // of a block of one row of a panel

    // Packs blocks of `outputs` <= kStrip rows of the file, `stride` bytes apart; the rest is zero.
    void (*pack)(const uint8_t* rows, size_t stride, int outputs, int blocks, uint8_t* strip);

    // Of as many rows as the index says, 1 to kRows.
    Quantize quantize[kRows + 1];
    Multiply multiply[kRows + 1];
};

extern const Kernel q4_0, q4_1, q5_0, q8_0, q4_k, q5_k, q6_k;

}  // namespace specchat

#endif
