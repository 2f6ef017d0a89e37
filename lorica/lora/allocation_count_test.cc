#include "lorica/base/allocation_count.h"

#include <gtest/gtest.h>

#include <memory>

#include "lorica/base/counting_new.inc"

namespace lorica::lora {
namespace {

TEST(AllocationCount, Counts) {
  const int64_t before = AllocationCount();
  const auto value = std::make_unique<int>(1);
  EXPECT_EQ(AllocationCount(), before + *value);
}

}  // namespace
}  // namespace lorica::lora
