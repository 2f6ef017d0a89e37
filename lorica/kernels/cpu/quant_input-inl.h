// x for quantised weights, inside LoraLinear: where it lies, how it is packed, and one tile of the
// base product.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/kernels/cpu/quant.h"
#include "lorica/kernels/params.h"

#if defined(LORICA_KERNELS_CPU_QUANT_INPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_QUANT_INPUT_INL_H_
#undef LORICA_KERNELS_CPU_QUANT_INPUT_INL_H_
#else
#define LORICA_KERNELS_CPU_QUANT_INPUT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

// Of a call; `kernels` is null where no part is quantised. Each array is cut by tiles of rows and
// laid out inside a tile as quant.h says.
struct QuantInput {
  const QuantKernels* kernels = nullptr;
  int64_t blocks = 0;
  int32_t* quads = nullptr;
  int32_t* offsets = nullptr;
  int32_t* half_offsets = nullptr;
  float* scales = nullptr;
  float* sums = nullptr;
};

inline bool IsQuantized(const LinearPart& part) {
  return kernels::IsQuantized(LayoutDType(part.weight->layout));
}

inline QuantInput MakeQuantInput(const LinearParams& p, const QuantKernels* kernels) {
  QuantInput input;
  for (const LinearPart& part : p.parts) {
    if (IsQuantized(part)) input.kernels = kernels;
  }
  input.blocks = QuantBlocks(p.k);
  float* begin = p.packed_x + PlainInputFloats(p.rows, p.k);
  input.quads = reinterpret_cast<int32_t*>(begin);
  input.offsets = input.quads + p.rows * input.blocks * kBlockQuads;
  input.half_offsets = input.offsets + p.rows * input.blocks;
  input.scales = reinterpret_cast<float*>(input.half_offsets + p.rows * input.blocks * 2);
  input.sums = input.scales + p.rows * input.blocks;
  return input;
}

// What suits the quantised parts; all of them share the tiles of rows.
inline LinearTiling ChooseQuantTiling(const LinearParams& p, const QuantKernels& kernels) {
  LinearTiling chosen;
  for (const LinearPart& part : p.parts) {
    if (!IsQuantized(part)) continue;
    const QuantTiling tiling = kernels.choose(LayoutDType(part.weight->layout), p.rows);
    const bool first = chosen.rows == 0;
    chosen.rows = first ? tiling.rows : std::min(chosen.rows, tiling.rows);
    chosen.panels = first ? tiling.panels : std::min(chosen.panels, tiling.panels);
  }
  return chosen;
}
inline bool QuantTileFits(const LinearParams& p, const QuantKernels& kernels, int rows,
                          int panels) {
  return std::all_of(p.parts.begin(), p.parts.end(), [&](const LinearPart& part) {
    return !IsQuantized(part) ||
           kernels.tile(LayoutDType(part.weight->layout), rows, panels) != nullptr;
  });
}

// This thread's blocks of the row that is packed as row i of a tile.
inline void PackQuantRow(const QuantInput& input, IndexRange tile, int64_t i, const float* x,
                         int64_t k, const TeamMember& member) {
  QuantPackArgs args;
  args.x = x;
  args.k = k;
  args.blocks = SplitRange(input.blocks, member);
  args.rows = tile.size();
  args.quads = input.quads + tile.begin * input.blocks * kBlockQuads + i;
  args.offsets = input.offsets + tile.begin * input.blocks + i;
  args.half_offsets = input.half_offsets + tile.begin * input.blocks * 2 + i;
  args.scales = input.scales + tile.begin * input.blocks + i;
  args.sums = input.sums + tile.begin * input.blocks + i;
  input.kernels->pack(args);
}

// The base product of `rows` packed rows and `panels` panels from `panel` on, into acc.
struct QuantTile {
  IndexRange rows;
  int64_t panel = 0;
  int64_t panels = 0;
  float* acc = nullptr;
  const std::byte* const* prefetch = nullptr;
  const std::byte* const* prefetch_last = nullptr;
};
inline void MultiplyQuantTile(const QuantInput& input, const Weight& weight,
                              const QuantTile& tile) {
  const DType storage = LayoutDType(weight.layout);
  QuantTileArgs args;
  args.x = input.quads + tile.rows.begin * input.blocks * kBlockQuads;
  args.offsets = input.offsets + tile.rows.begin * input.blocks;
  args.half_offsets = input.half_offsets + tile.rows.begin * input.blocks * 2;
  args.x_scale = input.scales + tile.rows.begin * input.blocks;
  args.x_sum = input.sums + tile.rows.begin * input.blocks;
  args.panel_bytes = QuantPanelBytes(storage, weight.k);
  args.w = weight.data.data() + tile.panel * args.panel_bytes;
  args.scale_bytes = QuantScaleBytes(storage, weight.k);
  args.scales = weight.scales.data() + tile.panel * args.scale_bytes;
  args.blocks = input.blocks;
  args.acc = tile.acc;
  args.prefetch = tile.prefetch;
  args.prefetch_last = tile.prefetch_last;
  input.kernels->tile(storage, static_cast<int>(tile.rows.size()),
                      static_cast<int>(tile.panels))(args);
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
