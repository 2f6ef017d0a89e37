// What the address sanitizer is told of memory that it does not know by itself. Does nothing in
// other builds. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define LORICA_ADDRESS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LORICA_ADDRESS_SANITIZED
#endif
#endif

#ifdef LORICA_ADDRESS_SANITIZED
#include <sanitizer/asan_interface.h>
#endif

namespace lorica {

#ifdef LORICA_ADDRESS_SANITIZED
inline constexpr bool kAddressSanitized = true;
inline void ForbidAddresses(const std::byte* from, int64_t bytes) {
  __asan_poison_memory_region(from, static_cast<size_t>(bytes));
}
inline void PermitAddresses(const std::byte* from, int64_t bytes) {
  __asan_unpoison_memory_region(from, static_cast<size_t>(bytes));
}
#else
inline constexpr bool kAddressSanitized = false;
inline void ForbidAddresses(const std::byte*, int64_t) {}
inline void PermitAddresses(const std::byte*, int64_t) {}
#endif

}  // namespace lorica
