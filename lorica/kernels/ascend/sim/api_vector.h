// AscendC vector unit: count forms (contiguous elements) and sliced forms (mask, repeat, strides).
// A mask is a number of leading lanes, or two 64-bit words, one bit a lane.
#pragma once

#include "lorica/kernels/ascend/sim/tensor.h"

namespace AscendC {
namespace detail {

using lorica::ascend::VecOp;
using lorica::ascend::VecShape;
using lorica::ascend::View;

inline VecShape Counted(int64_t count) {
  VecShape shape;
  shape.count = count > 0 ? count : -1;
  return shape;
}
inline void SetMask(VecShape* shape, uint64_t lanes) {
  lorica::ascend::MaskOfLanes(lanes, shape->mask);
}
inline void SetMask(VecShape* shape, const uint64_t* words) {
  shape->mask[0] = words[0];
  shape->mask[1] = words[1];
}
template <typename Mask>
VecShape Sliced(Mask mask, uint8_t repeat, const UnaryRepeatParams& p) {
  VecShape shape;
  SetMask(&shape, mask);
  shape.repeat = repeat;
  shape.dst_block = p.dstBlkStride;
  shape.a_block = p.srcBlkStride;
  shape.dst_repeat = p.dstRepStride;
  shape.a_repeat = p.srcRepStride;
  return shape;
}
template <typename Mask>
VecShape Sliced(Mask mask, uint8_t repeat, const BinaryRepeatParams& p) {
  VecShape shape;
  SetMask(&shape, mask);
  shape.repeat = repeat;
  shape.dst_block = p.dstBlkStride;
  shape.a_block = p.src0BlkStride;
  shape.b_block = p.src1BlkStride;
  shape.dst_repeat = p.dstRepStride;
  shape.a_repeat = p.src0RepStride;
  shape.b_repeat = p.src1RepStride;
  return shape;
}
inline void Run(VecOp op, const View& dst, const View* a, const View* b, double scalar,
                const VecShape& shape, int line) {
  lorica::ascend::VecElementwise(op, dst, a, b, scalar, RoundMode::CAST_NONE, shape, line);
}

}  // namespace detail

#define LORICA_BINARY(NAME, OP)                                                                 \
  template <typename T>                                                                         \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b,        \
            int32_t count, int line = __builtin_LINE()) {                                       \
    detail::Run(detail::VecOp::OP, dst.view(), &a.view(), &b.view(), 0, detail::Counted(count), \
                line);                                                                          \
  }                                                                                             \
  template <typename T>                                                                         \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b,        \
            uint64_t mask, uint8_t repeat, const BinaryRepeatParams& params,                    \
            int line = __builtin_LINE()) {                                                      \
    detail::Run(detail::VecOp::OP, dst.view(), &a.view(), &b.view(), 0,                         \
                detail::Sliced(mask, repeat, params), line);                                    \
  }                                                                                             \
  template <typename T>                                                                         \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b,        \
            const uint64_t* mask, uint8_t repeat, const BinaryRepeatParams& params,             \
            int line = __builtin_LINE()) {                                                      \
    detail::Run(detail::VecOp::OP, dst.view(), &a.view(), &b.view(), 0,                         \
                detail::Sliced(mask, repeat, params), line);                                    \
  }
LORICA_BINARY(Add, kAdd)
LORICA_BINARY(Sub, kSub)
LORICA_BINARY(Mul, kMul)
LORICA_BINARY(Div, kDiv)
LORICA_BINARY(Max, kMax)
LORICA_BINARY(Min, kMin)
LORICA_BINARY(MulAddDst, kMulAddDst)
#undef LORICA_BINARY

// Tensor and number. Axpy: dst += src * scalar.
#define LORICA_SCALAR(NAME, OP)                                                                   \
  template <typename T>                                                                           \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, T scalar, int32_t count,        \
            int line = __builtin_LINE()) {                                                        \
    detail::Run(detail::VecOp::OP, dst.view(), &src.view(), nullptr, static_cast<double>(scalar), \
                detail::Counted(count), line);                                                    \
  }                                                                                               \
  template <typename T>                                                                           \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, T scalar, uint64_t mask,        \
            uint8_t repeat, const UnaryRepeatParams& params, int line = __builtin_LINE()) {       \
    detail::Run(detail::VecOp::OP, dst.view(), &src.view(), nullptr, static_cast<double>(scalar), \
                detail::Sliced(mask, repeat, params), line);                                      \
  }
LORICA_SCALAR(Adds, kAdds)
LORICA_SCALAR(Muls, kMuls)
LORICA_SCALAR(Maxs, kMaxs)
LORICA_SCALAR(Mins, kMins)
LORICA_SCALAR(Axpy, kAxpy)
#undef LORICA_SCALAR

#define LORICA_UNARY(NAME, OP)                                                                   \
  template <typename T>                                                                          \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count,                 \
            int line = __builtin_LINE()) {                                                       \
    detail::Run(detail::VecOp::OP, dst.view(), &src.view(), nullptr, 0, detail::Counted(count),  \
                line);                                                                           \
  }                                                                                              \
  template <typename T>                                                                          \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, uint8_t repeat, \
            const UnaryRepeatParams& params, int line = __builtin_LINE()) {                      \
    detail::Run(detail::VecOp::OP, dst.view(), &src.view(), nullptr, 0,                          \
                detail::Sliced(mask, repeat, params), line);                                     \
  }
LORICA_UNARY(Exp, kExp)
LORICA_UNARY(Ln, kLn)
LORICA_UNARY(Abs, kAbs)
LORICA_UNARY(Sqrt, kSqrt)
LORICA_UNARY(Reciprocal, kRec)
LORICA_UNARY(Relu, kRelu)
#undef LORICA_UNARY

template <typename T>
void Duplicate(const LocalTensor<T>& dst, T value, int32_t count, int line = __builtin_LINE()) {
  detail::Run(detail::VecOp::kDuplicate, dst.view(), nullptr, nullptr, static_cast<double>(value),
              detail::Counted(count), line);
}
template <typename T>
void Duplicate(const LocalTensor<T>& dst, T value, uint64_t mask, uint8_t repeat,
               uint16_t dst_block, uint8_t dst_repeat, int line = __builtin_LINE()) {
  detail::Run(detail::VecOp::kDuplicate, dst.view(), nullptr, nullptr, static_cast<double>(value),
              detail::Sliced(mask, repeat, UnaryRepeatParams(dst_block, 1, dst_repeat, 8)), line);
}

// float <-> half, bf16, int32; half -> float exact (CAST_NONE), narrowing by the mode.
template <typename D, typename S>
void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, RoundMode mode, uint32_t count,
          int line = __builtin_LINE()) {
  lorica::ascend::VecElementwise(detail::VecOp::kCast, dst.view(), &src.view(), nullptr, 0, mode,
                                 detail::Counted(count), line);
}
template <typename D, typename S>
void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, RoundMode mode, uint64_t mask,
          uint8_t repeat, const UnaryRepeatParams& params, int line = __builtin_LINE()) {
  lorica::ascend::VecElementwise(detail::VecOp::kCast, dst.view(), &src.view(), nullptr, 0, mode,
                                 detail::Sliced(mask, repeat, params), line);
}

// One value a repeat (Whole, dstRepStride in elements), a block (Block), a pair (Pair).
template <typename T>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask,
                    int32_t repeat, int32_t dst_repeat, int32_t src_block, int32_t src_repeat,
                    int line = __builtin_LINE()) {
  lorica::ascend::ReduceShape shape;
  lorica::ascend::MaskOfLanes(mask, shape.mask);
  shape.repeat = repeat;
  shape.dst_repeat = dst_repeat;
  shape.src_block = src_block;
  shape.src_repeat = src_repeat;
  lorica::ascend::VecReduce(lorica::ascend::ReduceOp::kWholeSum, dst.view(), src.view(), shape,
                            line);
}
#define LORICA_REDUCE(NAME, OP)                                                                   \
  template <typename T>                                                                           \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeat, uint64_t mask,  \
            int32_t dst_repeat, int32_t src_block, int32_t src_repeat,                            \
            int line = __builtin_LINE()) {                                                        \
    lorica::ascend::ReduceShape shape;                                                            \
    lorica::ascend::MaskOfLanes(mask, shape.mask);                                                \
    shape.repeat = repeat;                                                                        \
    shape.dst_repeat = dst_repeat;                                                                \
    shape.src_block = src_block;                                                                  \
    shape.src_repeat = src_repeat;                                                                \
    lorica::ascend::VecReduce(lorica::ascend::ReduceOp::OP, dst.view(), src.view(), shape, line); \
  }
LORICA_REDUCE(BlockReduceSum, kBlockSum)
LORICA_REDUCE(PairReduceSum, kPairSum)
#undef LORICA_REDUCE
template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
               int32_t count, int line = __builtin_LINE()) {
  lorica::ascend::VecReduceSum(dst.view(), src.view(), work.view(), count, line);
}
// Each of 8 elements a repeat becomes a 32-byte block.
template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint8_t repeat,
          const BrcbRepeatParams& params, int line = __builtin_LINE()) {
  lorica::ascend::VecBrcb(dst.view(), src.view(), repeat, params, line);
}
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
            const LocalTensor<uint32_t>& byte_offsets, uint32_t base, uint32_t count,
            int line = __builtin_LINE()) {
  lorica::ascend::VecGather(dst.view(), src.view(), byte_offsets.view(), base, count, line);
}

}  // namespace AscendC
