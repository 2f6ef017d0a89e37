#include "lorica/lora/allocation_count.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace {
thread_local int64_t allocations = 0;
}  // namespace

// Never inlined, so that no caller sees new and free side by side, which g++ warns of.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
// Replaced too, since the sanitizer's own would not match the deletes below.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace lorica::lora {

int64_t AllocationCount() { return allocations; }

namespace {

TEST(AllocationCount, Counts) {
  const int64_t before = AllocationCount();
  const auto value = std::make_unique<int>(1);
  EXPECT_EQ(AllocationCount(), before + *value);
}

}  // namespace
}  // namespace lorica::lora
