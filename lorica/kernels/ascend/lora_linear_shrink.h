// Device code of lora_linear_cube.h: the shrink of one item on arch 2201. x streams by blocks of k
// past the A tiles of all adapters of the item, side by side. One core owns each object; C++17, no
// standard library.
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_linear_loader.h"

namespace lorica {
namespace ascend {

template <typename T, typename ItsLoader>
class Shrink {
 public:
  __aicore__ inline Shrink(ItsLoader& loader, uint32_t& weight_turn)
      : loader_(loader), weight_turn_(weight_turn) {}

  // Rows x all tiles of x * A^T, over inputs [begin, end), at byte `to` of L0C.
  __aicore__ inline void Run(Item& item, uint32_t begin, uint32_t end, uint32_t to) {
    sum_at_ = to;
    first_ = true;
    // A block of x that fits half of L0A stays there for all groups, and leaves L1 at once.
    const bool stays = item.steps * kStep >= kBlock;
    for (uint32_t k = begin; k < end; k += kBlock) {
      first_ = k == begin;
      const uint32_t fractals = Least(kBlock, end - k) / kFractal;
      loader_.Run();
      const uint32_t x_slot = loader_.XSlot();
      AscendC::WaitFlag<HardEvent::MTE2_MTE1>(kSlots + x_slot);
      if (stays) {
        LoadX(item, x_slot * kXBytes, 0, fractals);
        AscendC::SetFlag<HardEvent::MTE1_MTE2>(kSlots + x_slot);
        loader_.UseX();
      }
      for (uint32_t g = 0; g < item.groups; ++g) {
        loader_.Run();
        Group(item, stays, x_slot * kXBytes, fractals);
        item.NextGroup();
      }
      if (stays) {
        AscendC::SetFlag<HardEvent::M_MTE1>(x_half_);
      } else {
        AscendC::SetFlag<HardEvent::MTE1_MTE2>(kSlots + x_slot);
        loader_.UseX();
      }
    }
  }

  // The half of L0A that the last block of x went to.
  __aicore__ inline uint32_t XHalf() const { return x_half_; }

 private:
  // The A tiles of one group, at one block of k.
  __aicore__ inline void Group(const Item& item, bool stays, uint32_t x_at, uint32_t fractals) {
    const uint32_t tiles = item.GroupTiles();
    const uint32_t half = weight_turn_++ & 1;
    const uint32_t slot = loader_.Slot();
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(slot);
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + half);
    // Where x is there, the first half of the products need not wait for the second half of A.
    const uint32_t middle = stays ? Least(fractals, kBlock / kFractal / 2) : fractals;
    LoadA(slot, half, {tiles, fractals, 0, middle});
    AscendC::SetFlag<HardEvent::MTE1_M>(2 + half);
    if (middle < fractals) LoadA(slot, half, {tiles, fractals, middle, fractals});
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(slot);
    loader_.Use();
    AscendC::WaitFlag<HardEvent::MTE1_M>(2 + half);
    if (stays) {
      Products(item, half, {0, middle, 0});
      if (middle < fractals) {
        AscendC::SetFlag<HardEvent::MTE1_M>(4 + half);
        AscendC::WaitFlag<HardEvent::MTE1_M>(4 + half);
        Products(item, half, {middle, fractals, 0});
      }
    } else {
      const uint32_t part = item.steps * (kStep / kFractal);
      for (uint32_t begin = 0; begin < fractals; begin += part) {
        const uint32_t end = Least(fractals, begin + part);
        LoadX(item, x_at, begin, end);
        AscendC::SetFlag<HardEvent::MTE1_M>(x_half_);
        AscendC::WaitFlag<HardEvent::MTE1_M>(x_half_);
        Products(item, half, {begin, end, begin});
        AscendC::SetFlag<HardEvent::M_MTE1>(x_half_);
      }
    }
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + half);
  }

  // k-steps [begin, end) of `fractals` of each of `tiles`.
  struct PartOfA {
    uint32_t tiles = 0;
    uint32_t fractals = 0;
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  __aicore__ inline void LoadA(uint32_t slot, uint32_t half, const PartOfA& a) {
    for (uint32_t t = 0; t < a.tiles; ++t) {
      Fractals load;
      load.to = half * kHalfL0 + (a.begin * a.tiles + t) * kFractalBytes;
      load.from = kSlotAt + slot * kSlotBytes + (t * a.fractals + a.begin) * kFractalBytes;
      load.count = a.end - a.begin;
      load.gap = a.tiles - 1;
      Load<T>(TPosition::B2, load);
    }
  }

  // k-steps [begin, end) of x, in fractals, from L1 into the other half of L0A: there, a block of
  // 16 rows after another.
  __aicore__ inline void LoadX(const Item& item, uint32_t x_at, uint32_t begin, uint32_t end) {
    x_half_ ^= 1;
    const uint32_t half = x_half_;
    AscendC::WaitFlag<HardEvent::M_MTE1>(half);
    const uint32_t blocks = item.row_blocks;
    if (blocks == 1) {
      Load<T>(TPosition::A2, half * kHalfL0, x_at + begin * kFractalBytes, end - begin);
    } else {
      for (uint32_t at = begin; at < end; at += kStep / kFractal) {
        const uint32_t step = Least(kStep / kFractal, end - at);
        for (uint32_t block = 0; block < blocks; ++block) {
          Fractals load;
          load.to = half * kHalfL0 + ((at - begin) * blocks + block * step) * kFractalBytes;
          load.from = x_at + (at * blocks + block) * kFractalBytes;
          load.count = step;
          load.stride = blocks;
          Load<T>(TPosition::A2, load);
        }
      }
    }
  }

  // K-steps [begin, end) of a block, in fractals; L0A has x from `x_begin` on.
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t x_begin = 0;
  };
  __aicore__ inline void Products(const Item& item, uint32_t half, const Range& range) {
    const uint32_t tiles = item.GroupTiles();
    for (uint32_t at = range.begin; at < range.end; at += kStep / kFractal) {
      const uint32_t inner = Least(kStep / kFractal, range.end - at) * kFractal;
      const bool first = first_ && at == 0;
      // A product this small would read the sum before the last one has reached it.
      if (!first) AscendC::PipeBarrier<PIPE_M>();
      Product product;
      product.to = sum_at_ + item.group * kGroupTiles * item.row_blocks * kSumBytes;
      product.a = x_half_ * kHalfL0 + (at - range.x_begin) * item.padded * 32;
      product.b = half * kHalfL0 + at * tiles * kFractalBytes;
      product.rows = item.padded;
      product.columns = tiles * kFractal;
      product.inner = inner;
      product.first = first;
      Multiply<T>(product);
    }
  }

  ItsLoader& loader_;
  // Whose turn it is in each pair; they run on from item to item, that of L0B through the expands.
  uint32_t& weight_turn_;
  uint32_t x_half_ = 0;
  // Of the item at hand: where it sums in L0C, and whether it is at its first block of k.
  uint32_t sum_at_ = 0;
  bool first_ = false;
};

}  // namespace ascend
}  // namespace lorica
