// AscendTilePacker: rank tiles of 16 for the matrix unit, in the fractal order that L0B wants, so
// that a tile goes from memory to the unit in plain copies. Immutable; any thread may call it.
//
// A tile: A as K / 16 fractals (16 ranks x 16 inputs each, the inputs dense), B as N / 16 fractals
// (16 columns x 16 ranks, the ranks dense), then a TileNote. Elements are of the compute type.
//
// The scale: the cube has no scaled conversion from fp32 to 16 bits on arch 2201, so there it is in
// B. A power of two goes into B's exponents, exactly; a scale of another mantissa rounds each
// element of B once, and the note says so. On arch 2002 S is scaled in fp32, and B is the file's.
#pragma once

#include "lorica/lora/packing.h"

namespace lorica::ascend {

enum class ScalePlace { kInB, kOnS };

// What a tile says about itself, in its last 64 bytes.
struct TileNote {
  float scale = 1.0f;        // that is in B
  uint32_t rounded = 0;      // elements of A and B that are not exactly (scale x) the file's
  double worst_error = 0.0;  // of those, the largest error relative to the element
};

class AscendTilePacker : public lora::TilePacker {
 public:
  // `compute` is f16 or bf16.
  explicit AscendTilePacker(DType compute, ScalePlace scale_place = ScalePlace::kInB);

  DType compute() const { return compute_; }
  int32_t rank_quantum() const override { return 16; }
  int64_t TileBytes(const lora::TileShape& shape) const override;
  void PackTile(const lora::SiteFactors& factors, int32_t rank_begin,
                std::byte* tile) const override;

  // Whether the unit can hold `factors`: OUT_OF_RANGE with the limit and the figure where rank, K
  // or N do not fit, where an element times the scale is too large for the compute type, or where a
  // power-of-two scale would push a normal element of B into the subnormals.
  Status Accepts(const lora::SiteFactors& factors) const override;

  // Of a packed tile.
  static const std::byte* FactorB(const std::byte* tile, const lora::SiteShape& shape);
  static TileNote Note(const std::byte* tile, const lora::SiteShape& shape);

 private:
  uint16_t Encode(double value) const;
  double Decode(uint16_t bits) const;
  double InB(const lora::SiteFactors& factors) const {
    return scale_place_ == ScalePlace::kInB ? factors.scale : 1.0;
  }

  DType compute_;
  ScalePlace scale_place_;
};

}  // namespace lorica::ascend
