// Device code of lora_linear_cube.h: S of a split expand on arch 2201, the product of the slices'
// sums, side by side, with scaled identities below each other, in fp32. One core owns each object;
// C++17, no standard library.
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_linear_expand.h"

namespace lorica {
namespace ascend {

template <typename T, typename ItsLoader>
class SliceSums {
 public:
  __aicore__ inline explicit SliceSums(ItsLoader& loader) : loader_(loader) {}

  // S of the next expand: the slices' sums, in order, times the scale; to its place in L1. On the
  // way they pass through the place of S in L0A.
  __aicore__ inline void Run(const Item& item, uint32_t l0a, uint32_t turn) {
    const uint32_t sum = kYL0CBytes;
    AscendC::WaitFlag<HardEvent::FIX_M>(kSumsFlag);
    for (uint32_t begin = 0; begin < item.tiles; begin += item.SumTiles(begin)) {
      loader_.Need();
      const uint32_t x_slot = loader_.XSlot();
      AscendC::WaitFlag<HardEvent::MTE2_MTE1>(kSlots + x_slot);
      const uint32_t tiles = item.SumTiles(begin);
      for (uint32_t t = 0; t < tiles; ++t) {
        for (uint32_t block = 0; block < item.row_blocks; ++block) {
          Block(item, {t, block}, x_slot * kXBytes, l0a,
                sum + ((begin + t) * item.row_blocks + block) * kSumBytes);
        }
      }
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(kSlots + x_slot);
      loader_.UseX();
    }
    AscendC::SetFlag<HardEvent::M_FIX>(kSumsFlag);
    AscendC::WaitFlag<HardEvent::M_FIX>(kSumsFlag);
    RoundS<T>(item, sum, kSAt + turn * kSplitS);
    AscendC::SetFlag<HardEvent::FIX_M>(kSumsFlag);
  }

 private:
  struct Part {
    uint32_t tile = 0;
    uint32_t block = 0;
  };
  // Of one tile, 16 rows: a slice after another, so that its sum is added as it was written, times
  // the scale.
  __aicore__ inline void Block(const Item& item, Part part, uint32_t from, uint32_t place,
                               uint32_t to) {
    const uint32_t fractals = item.slices * kWideFractals;
    const uint32_t turn = turn_++ & 1;
    const uint32_t scale = turn * kHalfL0 + kScaleL0;
    const uint32_t sums = place + turn * kSumsL0;
    AscendC::WaitFlag<HardEvent::M_MTE1>(kSumFlag + turn);
    Load<float>(TPosition::B2, scale, from + kScaleAt + part.tile * kWideFractals * kFractalBytes,
                kWideFractals, 1, 0);
    Load<float>(TPosition::A2, sums,
                from + (part.tile * fractals * item.row_blocks + part.block) * kFractalBytes,
                fractals, item.row_blocks, 0);
    AscendC::SetFlag<HardEvent::MTE1_M>(turn);
    AscendC::WaitFlag<HardEvent::MTE1_M>(turn);
    AscendC::MmadParams params;
    params.m = kFractal;
    params.n = kFractal;
    params.k = kFractal;
    for (uint32_t slice = 0; slice < item.slices; ++slice) {
      const bool first = slice == 0;
      if (!first) AscendC::PipeBarrier<PIPE_M>();
      params.cmatrixInitVal = first;
      AscendC::Mmad(
          At<float>(TPosition::CO1, to, kFractalElements),
          At<float>(TPosition::A2, sums + slice * kWideFractals * kFractalBytes, kFractalElements),
          At<float>(TPosition::B2, scale, kFractalElements), params);
    }
    AscendC::SetFlag<HardEvent::M_MTE1>(kSumFlag + turn);
  }

  ItsLoader& loader_;
  uint32_t turn_ = 0;
};

}  // namespace ascend
}  // namespace lorica
