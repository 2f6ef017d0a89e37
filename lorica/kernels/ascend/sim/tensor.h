// AscendC::GlobalTensor and AscendC::LocalTensor: typed views of GM and of a core's own memories.
// Plain values, passed around by the kernel. GetValue and SetValue are the scalar unit's.
#pragma once

#include "lorica/kernels/ascend/sim/core_api.h"

namespace AscendC {

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;
  // `elements` 0: to the end of the buffer that `address` lies in.
  void SetGlobalBuffer(T* address, uint64_t elements = 0) {
    address_ = address;
    elements_ = elements;
  }
  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor part = *this;
    part.address_ = address_ + offset;
    // A view past its end keeps one byte too few on purpose: any access through it is refused.
    part.elements_ = elements_ == 0 ? 0 : (offset < elements_ ? elements_ - offset : kPastEnd);
    return part;
  }
  T GetValue(uint64_t index, int line = __builtin_LINE()) const {
    T value{};
    lorica::ascend::ScalarRead(view(), static_cast<int64_t>(index), &value, line);
    return value;
  }
  void SetValue(uint64_t index, T value, int line = __builtin_LINE()) const {
    lorica::ascend::ScalarWrite(view(), static_cast<int64_t>(index), &value, line);
  }
  uint64_t GetSize() const { return elements_ == kPastEnd ? 0 : elements_; }
  T* GetPhyAddr(uint64_t offset = 0) const { return address_ + offset; }

  lorica::ascend::View view() const {
    lorica::ascend::View view;
    view.type = lorica::ascend::TypeOf<T>::value;
    view.gm = reinterpret_cast<uint8_t*>(address_);
    view.bytes = elements_ == kPastEnd ? -1 : static_cast<int64_t>(elements_ * sizeof(T));
    return view;
  }

 private:
  static constexpr uint64_t kPastEnd = ~uint64_t{0};
  T* address_ = nullptr;
  uint64_t elements_ = 0;
};

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;
  LocalTensor() = default;
  // Static style: `elements` of T at byte `address` of the memory of `position`.
  LocalTensor(TPosition position, uint32_t address, uint32_t elements) {
    view_.position = position;
    view_.space = lorica::ascend::SpaceOf(position);
    view_.type = lorica::ascend::TypeOf<T>::value;
    view_.offset = address;
    view_.bytes = int64_t{elements} * static_cast<int64_t>(sizeof(T));
  }
  explicit LocalTensor(const lorica::ascend::View& view) : view_(view) {}

  LocalTensor operator[](uint32_t offset) const {
    LocalTensor part = *this;
    part.view_.offset += int64_t{offset} * static_cast<int64_t>(sizeof(T));
    part.view_.bytes -= int64_t{offset} * static_cast<int64_t>(sizeof(T));
    if (part.view_.bytes <= 0) part.view_.bytes = -1;
    return part;
  }
  T GetValue(uint32_t index, int line = __builtin_LINE()) const {
    T value{};
    lorica::ascend::ScalarRead(view_, index, &value, line);
    return value;
  }
  void SetValue(uint32_t index, T value, int line = __builtin_LINE()) const {
    lorica::ascend::ScalarWrite(view_, index, &value, line);
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    lorica::ascend::View view = view_;
    view.type = lorica::ascend::TypeOf<U>::value;
    return LocalTensor<U>(view);
  }
  uint32_t GetSize() const {
    return view_.bytes < 0 ? 0u
                           : static_cast<uint32_t>(view_.bytes / static_cast<int64_t>(sizeof(T)));
  }
  TPosition GetPosition() const { return view_.position; }

  const lorica::ascend::View& view() const { return view_; }

 private:
  lorica::ascend::View view_;
};

}  // namespace AscendC
