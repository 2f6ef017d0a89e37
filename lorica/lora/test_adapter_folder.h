// For tests of the tiers: adapter folders in which every number is one value, a base that they fit
// and a packer that keeps the value to be seen. Not part of the library.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "lorica/base/dtype.h"
#include "lorica/formats/test_files.h"
#include "lorica/lora/base_view.h"
#include "lorica/lora/packing.h"

namespace lorica::lora {

using TestFolder = formats::testing::TempDir;

inline constexpr SiteShape kFolderShape{32, 16};
inline constexpr int64_t kFolderFactorBytes = 8 * (32 + 16) * 2;  // in bf16

// Rank 8 on q of layer 0.
inline void WriteAdapterFolder(const std::string& path, float value) {
  using formats::testing::F32Tensor;
  using formats::testing::PeftName;
  const std::string module = "model.layers.0.self_attn.q_proj";
  formats::testing::WriteAdapter(
      path, R"({"peft_type":"LORA","r":8,"lora_alpha":8,"target_modules":["q_proj"]})",
      {F32Tensor(PeftName(module, "lora_A.weight"), {8, 32}, std::vector<float>(8 * 32, value)),
       F32Tensor(PeftName(module, "lora_B.weight"), {16, 8}, std::vector<float>(16 * 8, value))});
}

class FolderBase : public BaseView {
 public:
  SiteSpace sites() const override { return {1}; }
  SiteShape Shape(SiteId site) const override { return kFolderShape; }
  bool tied_head() const override { return true; }
  void BaseRow(SiteId site, int64_t n, std::span<float> row) const override {
    std::fill(row.begin(), row.end(), 1.0f);
  }
  const std::string& digest() const override { return digest_; }

 private:
  std::string digest_ = std::string(64, 'b');
};

// A tile is full of the factors' first number.
class ValuePacker : public TilePacker {
 public:
  int32_t rank_quantum() const override { return 8; }
  int64_t TileBytes(const TileShape& shape) const override {
    return (8 * (shape.k + shape.n) * 4 + 63) / 64 * 64;
  }
  void PackTile(const SiteFactors& factors, int32_t rank_begin, std::byte* tile) const override {
    float value = 0.0f;
    DequantizeRow(factors.a.dtype, factors.a.data, 1, &value);
    auto* numbers = reinterpret_cast<float*>(tile);
    std::fill(numbers, numbers + 8 * (factors.shape.k + factors.shape.n), value);
  }
};

}  // namespace lorica::lora
