#include "lorica/kernels/ascend/split_steps.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lorica/base/check.h"

namespace lorica::ascend {
namespace {

std::vector<SplitExpand> RandomExpands() {
  std::vector<SplitExpand> expands;
  size_t chunk = 0;
  int32_t round = 0;
  for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
    SplitExpand e;
    round = std::max(round, *rc::gen::inRange(0, 2));
    e.round = round;
    e.part = *rc::gen::inRange(0, 2);
    e.rows = *rc::gen::element(1, 16, 17, 128);
    e.tiles = *rc::gen::inRange(1, 6);
    e.chunk_begin = chunk;
    chunk += static_cast<size_t>(*rc::gen::inRange(1, 12));
    e.chunk_end = chunk;
    expands.push_back(e);
  }
  return expands;
}

// What the device does with the steps: chunks come, S is made, chunks leave in order.
RC_GTEST_PROP(OrderSplit, EachChunkLeavesOnceWithItsS, ()) {
  const std::vector<SplitExpand> expands = RandomExpands();
  const size_t chunks = expands.empty() ? 0 : expands.back().chunk_end;
  const std::array<uint64_t, kRounds> leads = {*rc::gen::inRange<uint64_t>(0, chunks + 1),
                                               *rc::gen::inRange<uint64_t>(0, chunks + 1)};
  const SplitOrder order = OrderSplit(expands, leads);
  RC_ASSERT(order.steps.size() == chunks);
  std::vector<size_t> batch_of;
  size_t batches = 0;
  uint64_t left = 0;
  for (size_t i = 0; i < expands.size(); ++i) {
    if (order.batch_tiles[i] != 0) {
      RC_ASSERT(left == 0u);
      left = order.batch_tiles[i];
      RC_ASSERT(order.s_at[i] == 0u);
      ++batches;
    }
    RC_ASSERT(left >= static_cast<uint64_t>(expands[i].tiles));
    left -= static_cast<uint64_t>(expands[i].tiles);
    batch_of.insert(batch_of.end(), expands[i].chunk_end - expands[i].chunk_begin, batches - 1);
  }
  RC_ASSERT(left == 0u);
  size_t finished = 0;
  size_t summed = 0;
  size_t used = 0;
  const auto finish = [&](uint64_t count, size_t begun) {
    for (; count > 0; --count, ++finished) {
      RC_ASSERT(finished < begun);
      used = batch_of[finished] + 1;
      summed = std::max(summed, used);  // the device makes it where it is not made
    }
  };
  const auto sum = [&] {
    RC_ASSERT(summed == used);  // one S under way at a time
    ++summed;
  };
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const uint64_t step = order.steps[chunk];
    RC_ASSERT(chunk - finished < 3u);  // places of L0B
    if ((step & kStepSumFirst) != 0) sum();
    finish(step & kStepCount, chunk);
    if ((step & kStepSum) != 0) sum();
    finish(step >> kStepAfter & kStepCount, chunk + 1);
  }
  RC_ASSERT(finished == chunks);
  RC_ASSERT(summed == batches);
}

}  // namespace
}  // namespace lorica::ascend
