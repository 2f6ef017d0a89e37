#include "bench/floor_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/floor_kernels.cc"
#include "lorica/kernels/cpu/targets.h"
// Highway needs its target list first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

float Read(const float* data, int64_t floats) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t stream = floats / 8;
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (int64_t i = 0; i < stream; i += lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + stream + i));
    s2 = hn::Add(s2, hn::LoadU(d, data + 2 * stream + i));
    s3 = hn::Add(s3, hn::LoadU(d, data + 3 * stream + i));
    s4 = hn::Add(s4, hn::LoadU(d, data + 4 * stream + i));
    s5 = hn::Add(s5, hn::LoadU(d, data + 5 * stream + i));
    s6 = hn::Add(s6, hn::LoadU(d, data + 6 * stream + i));
    s7 = hn::Add(s7, hn::LoadU(d, data + 7 * stream + i));
  }
  s0 = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  s4 = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  return hn::GetLane(hn::Add(s0, s4));
}

float Multiply(int64_t rounds) {
  const D d;
  const V a = hn::Set(d, 0.999f);
  const V b = hn::Set(d, 0.001f);
  // Ten different chains: equal ones would be computed once.
  V s0 = a, s1 = b, s2 = hn::Set(d, 2.0f), s3 = hn::Set(d, 3.0f), s4 = hn::Set(d, 4.0f);
  V s5 = hn::Set(d, 5.0f), s6 = hn::Set(d, 6.0f), s7 = hn::Set(d, 7.0f);
  V s8 = hn::Set(d, 8.0f), s9 = hn::Set(d, 9.0f);
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, a, b);
    s1 = hn::MulAdd(s1, a, b);
    s2 = hn::MulAdd(s2, a, b);
    s3 = hn::MulAdd(s3, a, b);
    s4 = hn::MulAdd(s4, a, b);
    s5 = hn::MulAdd(s5, a, b);
    s6 = hn::MulAdd(s6, a, b);
    s7 = hn::MulAdd(s7, a, b);
    s8 = hn::MulAdd(s8, a, b);
    s9 = hn::MulAdd(s9, a, b);
  }
  s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s8, s9));
  s4 = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  return hn::GetLane(hn::Add(s0, s4));
}

void Fill(FloorKernels* kernels) {
  kernels->read = &Read;
  kernels->multiply = &Multiply;
  kernels->flops_per_round = 20 * static_cast<int64_t>(hn::Lanes(D()));
}

}  // namespace lorica::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::bench {

FloorKernels FloorKernelsFor(std::string_view isa) {
  void (*fill)(FloorKernels*) = nullptr;
  if (isa == "scalar") fill = HWY_CHOOSE_FALLBACK(Fill);
  if (isa == "sse4") fill = HWY_CHOOSE_SSE4(Fill);
  if (isa == "avx2") fill = HWY_CHOOSE_AVX2(Fill);
  if (isa == "avx512") fill = HWY_CHOOSE_AVX3(Fill);
  FloorKernels kernels;
  if (fill != nullptr) fill(&kernels);
  return kernels;
}

}  // namespace lorica::bench
#endif
