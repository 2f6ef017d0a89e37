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

  // S of `item`: the slices' sums, in order, times the scale; to byte `to` of L1. On the way they
  // pass through L0A at `l0a`, which the flag `half` says is free.
  __aicore__ inline void Run(const Item& item, uint32_t to, uint32_t l0a, uint32_t half) {
    AscendC::WaitFlag<HardEvent::FIX_M>(kSumsFlag);
    for (uint32_t begin = 0; begin < item.tiles; begin += item.SumTiles(begin)) {
      loader_.Need();
      const uint32_t x_slot = loader_.XSlot();
      AscendC::WaitFlag<HardEvent::MTE2_MTE1>(kSlots + x_slot);
      const uint32_t blocks = item.SumTiles(begin) * item.row_blocks;
      for (uint32_t block = 0; block < blocks; block += kSumsAtOnce) {
        const uint32_t end = Least(blocks, block + kSumsAtOnce);
        AscendC::WaitFlag<HardEvent::M_MTE1>(half);
        for (uint32_t b = block; b < end; ++b) LoadBlock(item, b, x_slot * kXBytes, l0a);
        AscendC::SetFlag<HardEvent::MTE1_M>(0);
        AscendC::WaitFlag<HardEvent::MTE1_M>(0);
        AddSlices(item, end - block, l0a,
                  kYL0CBytes + (begin * item.row_blocks + block) * kSumBytes);
        AscendC::SetFlag<HardEvent::M_MTE1>(half);
      }
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(kSlots + x_slot);
      loader_.UseX();
    }
    AscendC::SetFlag<HardEvent::M_FIX>(kSumsFlag);
    AscendC::WaitFlag<HardEvent::M_FIX>(kSumsFlag);
    RoundS<T>(item, kYL0CBytes, to);
    AscendC::SetFlag<HardEvent::FIX_M>(kSumsFlag);
  }

 private:
  static constexpr uint32_t kSumsAtOnce = 2;

  // Of a batch of tiles, 16 rows of one tile, and the tile's scaled identity.
  __aicore__ inline void LoadBlock(const Item& item, uint32_t block, uint32_t from, uint32_t l0a) {
    const uint32_t fractals = item.slices * kWideFractals;
    const uint32_t tile = block / item.row_blocks;
    const uint32_t turn = block % kSumsAtOnce;
    Load<float>(TPosition::B2, kScaleL0 + turn * kWideFractals * kFractalBytes,
                from + kScaleAt + tile * kWideFractals * kFractalBytes, kWideFractals);
    Fractals load;
    load.to = l0a + turn * kSumsL0;
    load.from =
        from + (tile * fractals * item.row_blocks + block % item.row_blocks) * kFractalBytes;
    load.count = fractals;
    load.stride = item.row_blocks;
    Load<float>(TPosition::A2, load);
  }

  // Of each block, a slice after another, so that its sum is added as it was written, times the
  // scale.
  __aicore__ inline void AddSlices(const Item& item, uint32_t blocks, uint32_t l0a, uint32_t to) {
    AscendC::MmadParams params;
    params.m = kFractal;
    params.n = kFractal;
    params.k = kFractal;
    for (uint32_t slice = 0; slice < item.slices; ++slice) {
      const bool first = slice == 0;
      if (!first) AscendC::PipeBarrier<PIPE_M>();
      params.cmatrixInitVal = first;
      for (uint32_t b = 0; b < blocks; ++b) {
        AscendC::Mmad(
            At<float>(TPosition::CO1, to + b * kSumBytes, kFractalElements),
            At<float>(TPosition::A2, l0a + b * kSumsL0 + slice * kWideFractals * kFractalBytes,
                      kFractalElements),
            At<float>(TPosition::B2, kScaleL0 + b * kWideFractals * kFractalBytes,
                      kFractalElements),
            params);
      }
    }
  }

  ItsLoader& loader_;
};

}  // namespace ascend
}  // namespace lorica
