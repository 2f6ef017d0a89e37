#include "lorica/base/buffer.h"

#include <gtest/gtest.h>

#include <utility>

#include "lorica/base/address_sanitizer.h"

namespace lorica {
namespace {

TEST(Buffer, IsZeroedAlignedAndCharged) {
  MemoryLedger ledger;
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{100}, int64_t{5} << 20}) {
    Result<Buffer> buffer = Buffer::Allocate(bytes, MemoryTag::kWeights, &ledger);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(ledger.bytes(MemoryTag::kWeights), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment, 0u);
    for (std::byte b : buffer->as<std::byte>()) ASSERT_EQ(b, std::byte{0});
  }
  EXPECT_EQ(ledger.bytes(MemoryTag::kWeights), 0);
}

TEST(Buffer, MovingHandsTheChargeOver) {
  MemoryLedger ledger;
  Buffer a = Buffer::Allocate(64, MemoryTag::kKvPages, &ledger).value();
  Buffer b = Buffer::Allocate(128, MemoryTag::kKvPages, &ledger).value();
  b = std::move(a);
  EXPECT_EQ(ledger.bytes(MemoryTag::kKvPages), 64);
  EXPECT_EQ(b.bytes(), 64);
  { Buffer c = std::move(b); }
  EXPECT_EQ(ledger.bytes(MemoryTag::kKvPages), 0);
}

#ifdef LORICA_ADDRESS_SANITIZED  // as the kernels' tests are built
TEST(Buffer, AStepOverItsEndIsSeen) {
  for (const int64_t bytes : {1, 100, 4096, 8192, 2 << 20}) {
    const Buffer buffer = Buffer::Allocate(bytes, MemoryTag::kOther, nullptr).value();
    const volatile std::byte* data = buffer.data();
    EXPECT_EQ(static_cast<int>(data[bytes - 1]), 0);
    EXPECT_DEATH((void)data[bytes], "AddressSanitizer") << bytes;
  }
}
#endif

TEST(Buffer, SaysWhenThereIsNoRoom) {
  Result<Buffer> buffer = Buffer::Allocate(int64_t{1} << 60, MemoryTag::kWeights, nullptr);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find("1152921504606846976 bytes"), std::string::npos);
}

}  // namespace
}  // namespace lorica
