#include "lorica/base/buffer.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "lorica/base/address_sanitizer.h"

namespace lorica {
namespace {

// Memory from the system is nothing to the address sanitizer: it is told where a buffer ends, so
// that a kernel's step over is seen to the byte.
constexpr int64_t kGuardBytes = kAddressSanitized ? 1 : 0;  // at least; up to the end of the page
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

}  // namespace

Result<Buffer> Buffer::Allocate(int64_t bytes, MemoryTag tag, MemoryLedger* ledger) {
  LORICA_CHECK(bytes >= 0);
  Buffer buffer;
  buffer.tag_ = tag;
  buffer.ledger_ = ledger;
  if (bytes == 0) return buffer;
  // Straight from the system: zeroed without touching it, returned whole when freed, and aligned
  // for huge pages where that can pay.
  const int64_t unit = bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  const int64_t mapped = (bytes + kGuardBytes + unit - 1) / unit * unit;
  const int64_t slack = unit > kPageBytes ? unit : 0;
  void* raw = mmap(nullptr, static_cast<size_t>(mapped + slack), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return ResourceExhausted("memory for " + std::string(MemoryTagName(tag)) +
                             ": the system has no " + std::to_string(bytes) + " bytes");
  }
  auto* base = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<uintptr_t>(base);
  const int64_t head = (unit - static_cast<int64_t>(address % static_cast<uint64_t>(unit))) % unit;
  if (slack > 0) {
    if (head > 0) munmap(base, static_cast<size_t>(head));
    if (slack > head) munmap(base + head + mapped, static_cast<size_t>(slack - head));
    base += head;
    madvise(base, static_cast<size_t>(mapped), MADV_HUGEPAGE);
  }
  ForbidAddresses(base + bytes, mapped - bytes);
  buffer.data_ = base;
  buffer.bytes_ = bytes;
  buffer.mapped_bytes_ = mapped;
  if (ledger != nullptr) ledger->Add(tag, bytes);
  return buffer;
}

Buffer::~Buffer() { Release(); }

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Release();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  tag_ = other.tag_;
  ledger_ = other.ledger_;
  return *this;
}

void Buffer::Release() {
  if (data_ == nullptr) return;
  PermitAddresses(data_, mapped_bytes_);
  munmap(data_, static_cast<size_t>(mapped_bytes_));
  if (ledger_ != nullptr) ledger_->Add(tag_, -bytes_);
  data_ = nullptr;
}

}  // namespace lorica
