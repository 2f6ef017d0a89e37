// The packed forms that the CPU kernels read, and the functions that make them. Pure functions;
// any thread.
//
// Weight panel: 16 columns (output features; N padded with zero columns). For each pair (k, k + 1)
// (K padded with zeros to a multiple of 4): bf16: 16 lanes of 32 bits, W[j][k] high, W[j][k + 1]
// low; f16: 16 halves of k, 16 of k + 1; f32: 16 floats of k, 16 of k + 1. Panels lie one after
// another.
//
// Rank tile of 8: A as a panel of 8 columns (the ranks) over K, padded to 64 bytes; then B as one
// panel of 16 columns over 8 ranks for each 16 outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lorica/base/dtype.h"
#include "lorica/base/status.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/params.h"
#include "lorica/lora/packing.h"

namespace lorica {
struct MachineContext;
}

namespace lorica::kernels::cpu {

// Even: the shrink takes two pairs at a time.
constexpr int64_t Pairs(int64_t k) { return (k + 3) / 4 * 2; }
// Every sum along k is cut here: each block of pairs is one chain from zero (a shrink: two), and
// the blocks' sums are added up in order. One chain over all of K loses small terms beside a large
// one met early (SmolLM2's activations hold such); blocks of 256 k keep log-probabilities within
// what fp32 by other means gives, at no cost that could be measured.
inline constexpr int64_t kChainPairs = 128;
constexpr int64_t Panels(int64_t n) { return (n + 15) / 16; }
// Bytes of one lane of a pair: 8 in f32, else 4.
constexpr int64_t LanePairBytes(DType dtype) { return dtype == DType::kF32 ? 8 : 4; }
constexpr int64_t PanelBytes(DType dtype, int64_t k) {
  return Pairs(k) * 16 * LanePairBytes(dtype);
}
// A's part of a rank tile, and one panel of B's part.
constexpr int64_t TileABytes(DType dtype, int64_t k) {
  return (Pairs(k) * 8 * LanePairBytes(dtype) + 63) / 64 * 64;
}
constexpr int64_t TileBPanelBytes(DType dtype) { return PanelBytes(dtype, 8); }

DType LayoutDType(WeightLayout layout);
WeightLayout LayoutOf(DType dtype);

// Columns of a panel as rows of f32, `stride` floats apart, each `k` long; the panel's first
// `columns` are packed and the others zeroed.
struct PanelSource {
  const float* rows = nullptr;
  int64_t stride = 0;
  int64_t columns = 0;
  int64_t k = 0;
};
// `width` is 16 (weights, B) or 8 (A). Rounds to nearest even.
void PackPanel(const PanelSource& source, DType dtype, int64_t width, std::byte* panel);
// Element (column, k) of a panel.
float PanelElement(DType dtype, const std::byte* panel, int64_t width, int64_t column, int64_t k);
// Row n of a packed weight.
void UnpackWeightRow(const Weight& weight, int64_t n, std::span<float> row);

class CpuTilePacker : public lora::TilePacker {
 public:
  int32_t rank_quantum() const override { return 8; }
  int64_t TileBytes(const lora::TileShape& shape) const override;
  void PackTile(const lora::SiteFactors& factors, int32_t rank_begin,
                std::byte* tile) const override;
};

// Reads 16 rows, packs them and drops them, on every thread of the context's pool.
Result<Weight> PackPanels(const RowSource& source, DType storage, MachineContext* context);

}  // namespace lorica::kernels::cpu
