// Wide<W>: W virtual f32 lanes as one or several registers of the instruction set being compiled,
// so that each kernel is written once and every set with FMA gives the same bits. Also the fixed
// fold of 16 lanes, exp, and the decoding of the three weight formats.

#include <cstddef>
#include <cstdint>

#include "lorica/kernels/cpu/targets.h"
// Highway needs its target list first.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#if defined(LORICA_KERNELS_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_LANES_INL_H_
#undef LORICA_KERNELS_CPU_LANES_INL_H_
#else
#define LORICA_KERNELS_CPU_LANES_INL_H_
#endif

#ifdef __clang__
#define LORICA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LORICA_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <int kWidth>
struct Wide {
  using D = hn::CappedTag<float, kWidth>;
  using V = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kParts = kWidth / kLanes;
  V v[kParts];
};
using W16 = Wide<16>;

template <int kWidth>
HWY_INLINE Wide<kWidth> Splat(float value) {
  using W = Wide<kWidth>;
  W out;
  LORICA_UNROLL
  for (int i = 0; i < W::kParts; ++i) out.v[i] = hn::Set(typename W::D(), value);
  return out;
}
template <int kWidth>
HWY_INLINE Wide<kWidth> Load(const float* from) {
  using W = Wide<kWidth>;
  W out;
  LORICA_UNROLL
  for (int i = 0; i < W::kParts; ++i) out.v[i] = hn::LoadU(typename W::D(), from + i * W::kLanes);
  return out;
}
template <int kWidth>
HWY_INLINE void Store(const Wide<kWidth>& value, float* to) {
  using W = Wide<kWidth>;
  LORICA_UNROLL
  for (int i = 0; i < W::kParts; ++i) hn::StoreU(value.v[i], typename W::D(), to + i * W::kLanes);
}
// The first n of 16 floats, the others `fill`; reads and writes nothing past n.
HWY_INLINE W16 LoadFirst(const float* from, int64_t n, float fill) {
  if (n >= 16) return Load<16>(from);
  alignas(64) float lanes[16];
  for (int64_t i = 0; i < 16; ++i) lanes[i] = i < n ? from[i] : fill;
  return Load<16>(lanes);
}
HWY_INLINE void StoreFirst(const W16& value, float* to, int64_t n) {
  if (n >= 16) {
    Store<16>(value, to);
    return;
  }
  alignas(64) float lanes[16];
  Store<16>(value, lanes);
  for (int64_t i = 0; i < n; ++i) to[i] = lanes[i];
}

#define LORICA_WIDE_BINARY(NAME, OP)                                                  \
  template <int kWidth>                                                               \
  HWY_INLINE Wide<kWidth> NAME(const Wide<kWidth>& a, const Wide<kWidth>& b) {        \
    Wide<kWidth> out;                                                                 \
    LORICA_UNROLL                                                                     \
    for (int i = 0; i < Wide<kWidth>::kParts; ++i) out.v[i] = hn::OP(a.v[i], b.v[i]); \
    return out;                                                                       \
  }
LORICA_WIDE_BINARY(AddW, Add)
LORICA_WIDE_BINARY(SubW, Sub)
LORICA_WIDE_BINARY(MulW, Mul)
LORICA_WIDE_BINARY(DivW, Div)
LORICA_WIDE_BINARY(MaxW, Max)
#undef LORICA_WIDE_BINARY

// a * b + c, one rounding where the set has FMA.
template <int kWidth>
HWY_INLINE Wide<kWidth> FmaW(const Wide<kWidth>& a, const Wide<kWidth>& b, const Wide<kWidth>& c) {
  Wide<kWidth> out;
  LORICA_UNROLL
  for (int i = 0; i < Wide<kWidth>::kParts; ++i) out.v[i] = hn::MulAdd(a.v[i], b.v[i], c.v[i]);
  return out;
}
// The first n lanes of `value`, the others `fill`.
HWY_INLINE W16 SelectFirst(const W16& value, int64_t n, float fill) {
  W16 out;
  const W16::D d;
  LORICA_UNROLL
  for (int i = 0; i < W16::kParts; ++i) {
    const int64_t left = n - i * W16::kLanes;
    const auto count = static_cast<float>(left < 0 ? 0 : left);
    const auto mask = hn::Lt(hn::Iota(d, 0.0f), hn::Set(d, count));
    out.v[i] = hn::IfThenElse(mask, value.v[i], hn::Set(d, fill));
  }
  return out;
}

struct JoinByAdding {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct JoinByMax {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};
// Lanes folded in halves: 16 -> 8 -> 4 -> 2 -> 1, whatever the register width.
template <class Join>
HWY_INLINE float Fold(const W16& value, const Join& join) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  alignas(64) float lanes[16];
  Store<16>(value, lanes);
  const hn::CappedTag<float, 1> d;
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] = hn::GetLane(join(hn::Set(d, lanes[i]), hn::Set(d, lanes[i + half])));
    }
  }
  return lanes[0];
#else
#if HWY_TARGET == HWY_AVX3
  const hn::Half<W16::D> eight;
  const hn::Half<hn::Half<W16::D>> d;
  const auto half = join(hn::LowerHalf(eight, value.v[0]), hn::UpperHalf(eight, value.v[0]));
  const auto four = join(hn::LowerHalf(d, half), hn::UpperHalf(d, half));
#elif HWY_TARGET == HWY_AVX2
  const hn::Half<W16::D> d;
  const auto half = join(value.v[0], value.v[1]);
  const auto four = join(hn::LowerHalf(d, half), hn::UpperHalf(d, half));
#else
  const auto four = join(join(value.v[0], value.v[2]), join(value.v[1], value.v[3]));
#endif
  const auto two = join(four, hn::Shuffle1032(four));
  return hn::GetLane(join(two, hn::Shuffle2301(two)));
#endif
}
HWY_INLINE float FoldSum(const W16& value) { return Fold(value, JoinByAdding()); }
HWY_INLINE float FoldMax(const W16& value) { return Fold(value, JoinByMax()); }

// e^x to 2 ulp for x in [-87, 88]; 0 below, e^88 above; NaN stays NaN. Range reduction by ln 2 in
// two parts, then the Taylor polynomial of degree 7 on [-0.347, 0.347].
HWY_INLINE W16 ExpW(const W16& x) {
  W16 out;
  const W16::D d;
  const hn::RebindToSigned<W16::D> di;
  LORICA_UNROLL
  for (int i = 0; i < W16::kParts; ++i) {
    const auto in = x.v[i];
    const auto low = hn::Set(d, -87.0f);
    const auto clamped = hn::Min(hn::Max(in, low), hn::Set(d, 88.0f));
    const auto n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
    auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), clamped);
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
    auto p = hn::Set(d, 1.98412698e-4f);
    p = hn::MulAdd(p, r, hn::Set(d, 1.38888889e-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 8.33333333e-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 4.16666667e-2f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.66666667e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
    p = hn::MulAdd(hn::Mul(p, r), r, r);
    p = hn::Add(p, hn::Set(d, 1.0f));
    const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
    p = hn::Mul(p, hn::BitCast(d, exponent));
    p = hn::IfThenElse(hn::Lt(in, low), hn::Zero(d), p);
    out.v[i] = hn::IfThenElse(hn::Eq(in, in), p, in);
  }
  return out;
}
HWY_INLINE W16 SwiGluW(const W16& gate, const W16& up) {
  const W16 silu = DivW(gate, AddW(Splat<16>(1.0f), ExpW(SubW(Splat<16>(0.0f), gate))));
  return MulW(silu, up);
}
HWY_INLINE float ExpScalar(float x) {
  alignas(64) float lanes[16];
  Store<16>(ExpW(Splat<16>(x)), lanes);
  return lanes[0];
}

// Weight formats: a row of kWidth columns for k (even) and one for k + 1, kPairBytes together.
template <int kWidth>
struct Bf16Format {
  static constexpr int64_t kPairBytes = kWidth * 4;
  static HWY_INLINE Wide<kWidth> Even(const std::byte* row) {
    using W = Wide<kWidth>;
    const typename W::D d;
    const hn::RebindToUnsigned<typename W::D> du;
    W out;
    LORICA_UNROLL
    for (int i = 0; i < W::kParts; ++i) {
      const auto raw = hn::LoadU(du, reinterpret_cast<const uint32_t*>(row) + i * W::kLanes);
      out.v[i] = hn::BitCast(d, hn::And(raw, hn::Set(du, 0xffff0000u)));
    }
    return out;
  }
  static HWY_INLINE Wide<kWidth> Odd(const std::byte* row) {
    using W = Wide<kWidth>;
    const typename W::D d;
    const hn::RebindToUnsigned<typename W::D> du;
    W out;
    LORICA_UNROLL
    for (int i = 0; i < W::kParts; ++i) {
      const auto raw = hn::LoadU(du, reinterpret_cast<const uint32_t*>(row) + i * W::kLanes);
      out.v[i] = hn::BitCast(d, hn::ShiftLeft<16>(raw));
    }
    return out;
  }
};
template <int kWidth>
HWY_INLINE Wide<kWidth> LoadF16(const std::byte* from) {
  using W = Wide<kWidth>;
  const typename W::D d;
  const hn::Rebind<hwy::float16_t, typename W::D> dh;
  W out;
  LORICA_UNROLL
  for (int i = 0; i < W::kParts; ++i) {
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(from) + i * W::kLanes;
    out.v[i] = hn::PromoteTo(d, hn::LoadU(dh, halves));
#if HWY_TARGET != HWY_AVX2 && HWY_TARGET != HWY_AVX3
    // Without the processor's conversion Highway makes numbers from 65,536 on of what is infinite
    // or not a number, and an overflow would end in an answer.
    const hn::RebindToUnsigned<typename W::D> du;
    const auto beyond = hn::BitCast(d, hn::Or(hn::BitCast(du, out.v[i]), hn::Set(du, 0x7f800000u)));
    const auto is_beyond = hn::Ge(hn::Abs(out.v[i]), hn::Set(d, 65536.0f));
    out.v[i] = hn::IfThenElse(is_beyond, beyond, out.v[i]);
#endif
  }
  return out;
}
template <int kWidth>
struct F16Format {
  static constexpr int64_t kPairBytes = kWidth * 4;
  static HWY_INLINE Wide<kWidth> Even(const std::byte* row) { return LoadF16<kWidth>(row); }
  static HWY_INLINE Wide<kWidth> Odd(const std::byte* row) {
    return LoadF16<kWidth>(row + kWidth * 2);
  }
};
template <int kWidth>
struct F32Format {
  static constexpr int64_t kPairBytes = kWidth * 8;
  static HWY_INLINE Wide<kWidth> Even(const std::byte* row) {
    return Load<kWidth>(reinterpret_cast<const float*>(row));
  }
  static HWY_INLINE Wide<kWidth> Odd(const std::byte* row) {
    return Load<kWidth>(reinterpret_cast<const float*>(row) + kWidth);
  }
};

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
