#include "lorica/base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lorica {

#if defined(__x86_64__)
namespace {
constexpr uint32_t kFlushToZero = 1u << 15;
constexpr uint32_t kDenormalsAreZero = 1u << 6;
}  // namespace

ScopedFlushDenormals::ScopedFlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(static_cast<uint32_t>(saved_) | kFlushToZero | kDenormalsAreZero);
}
ScopedFlushDenormals::~ScopedFlushDenormals() { _mm_setcsr(static_cast<uint32_t>(saved_)); }

#elif defined(__aarch64__)
namespace {
constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
}  // namespace

ScopedFlushDenormals::ScopedFlushDenormals() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(saved_ | kFlushToZero));
}
ScopedFlushDenormals::~ScopedFlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#endif

}  // namespace lorica
