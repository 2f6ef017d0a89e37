#include "lorica/lora/segments.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>

namespace lorica::lora {
namespace {

TokenMap Slots(const std::vector<int>& ids) {
  TokenMap slots;
  for (int id : ids) slots.push_back({id});
  return slots;
}

void ExpectSegment(const SegmentTable& table, size_t index, Segment expected) {
  ASSERT_LT(index, table.segments().size());
  EXPECT_EQ(table.segments()[index].slot, expected.slot);
  EXPECT_EQ(table.segments()[index].begin, expected.begin);
  EXPECT_EQ(table.segments()[index].end, expected.end);
}

TEST(SegmentTable, EqualSlotsAreBroughtTogetherInRowOrder) {
  SegmentTable table;
  table.Build(Slots({0, 2, 0, 1}));
  EXPECT_EQ(table.order(), (std::vector<int32_t>{0, 2, 3, 1}));
  ASSERT_EQ(table.segments().size(), 3u);
  ExpectSegment(table, 0, {{0}, 0, 2});
  ExpectSegment(table, 1, {{1}, 2, 3});
  ExpectSegment(table, 2, {{2}, 3, 4});
  EXPECT_FALSE(table.contiguous());
}

TEST(SegmentTable, RowsOfTheBaseModelAreLeftOut) {
  SegmentTable table;
  table.Build(Slots({0, 2, -1}));
  EXPECT_EQ(table.order(), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(table.segments().size(), 2u);
  EXPECT_TRUE(table.contiguous());

  table.Build(Slots({-1, -1, -1}));
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(table.order().empty());
  EXPECT_TRUE(table.contiguous());

  table.Build({});
  EXPECT_TRUE(table.empty());
}

TEST(SegmentTable, AGapOfBaseRowsIsNotContiguous) {
  SegmentTable table;
  table.Build(Slots({-1, 3, 3, 4}));
  EXPECT_TRUE(table.contiguous());
  table.Build(Slots({3, -1, 3}));
  EXPECT_FALSE(table.contiguous());
  EXPECT_EQ(table.segments().size(), 1u);
}

TEST(SegmentTable, IsTheStableSortOfAnyTokenMap) {
  EXPECT_TRUE(rc::check([](const std::vector<uint8_t>& raw) {
    TokenMap slots;
    for (uint8_t value : raw) slots.push_back({value % 7 - 1});
    SegmentTable table;
    table.Build(slots);

    std::vector<int32_t> expected;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] != kBaseModel) expected.push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
      return slots[static_cast<size_t>(a)] < slots[static_cast<size_t>(b)];
    });
    RC_ASSERT(table.order() == expected);

    int32_t covered = 0;
    SlotId last = kBaseModel;
    for (const Segment& segment : table.segments()) {
      RC_ASSERT(segment.begin == covered);
      RC_ASSERT(segment.size() > 0);
      RC_ASSERT(last < segment.slot);
      for (int32_t i = segment.begin; i < segment.end; ++i) {
        const int32_t row = table.order()[static_cast<size_t>(i)];
        RC_ASSERT(slots[static_cast<size_t>(row)] == segment.slot);
      }
      last = segment.slot;
      covered = segment.end;
    }
    RC_ASSERT(covered == static_cast<int32_t>(expected.size()));
  }));
}

// Whatever the order of the rows, each slot keeps as many of them and in the order of the batch.
TEST(SegmentTable, APermutationOfRowsPermutesOnlyTheOrder) {
  EXPECT_TRUE(rc::check([](const std::vector<uint8_t>& raw) {
    TokenMap slots;
    for (uint8_t value : raw) slots.push_back({value % 5 - 1});
    TokenMap shuffled = slots;
    for (size_t i = shuffled.size(); i > 1; --i) {
      std::swap(shuffled[i - 1], shuffled[*rc::gen::inRange<size_t>(0, i)]);
    }
    SegmentTable a;
    SegmentTable b;
    a.Build(slots);
    b.Build(shuffled);
    RC_ASSERT(a.segments().size() == b.segments().size());
    for (size_t i = 0; i < a.segments().size(); ++i) {
      RC_ASSERT(a.segments()[i].slot == b.segments()[i].slot);
      RC_ASSERT(a.segments()[i].begin == b.segments()[i].begin);
      RC_ASSERT(a.segments()[i].end == b.segments()[i].end);
    }
  }));
}

}  // namespace
}  // namespace lorica::lora
