// AlignedVector: host memory that stands for device memory, at multiples of 512 bytes as a device
// allocator gives it.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace lorica::ascend {

template <typename T>
struct DeviceAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlign{512};

  DeviceAllocator() = default;
  template <typename U>
  DeviceAllocator(const DeviceAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlign)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kAlign); }
  template <typename U>
  bool operator==(const DeviceAllocator<U>&) const {
    return true;
  }
};
template <typename T>
using AlignedVector = std::vector<T, DeviceAllocator<T>>;

}  // namespace lorica::ascend
