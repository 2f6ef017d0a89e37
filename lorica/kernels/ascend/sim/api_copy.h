// AscendC copies, cube, fixpipe, sync: thin typed forms of core_api.h.
#pragma once

#include "lorica/kernels/ascend/sim/tensor.h"

namespace AscendC {

// GM <-> L1 / UB, UB <-> L1 (arch 2002), L1 -> bias table.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count,
              int line = __builtin_LINE()) {
  lorica::ascend::CopyPlain(dst.view(), src.view(), count, line);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
              int line = __builtin_LINE()) {
  lorica::ascend::CopyPlain(dst.view(), src.view(), count, line);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
              int line = __builtin_LINE()) {
  lorica::ascend::CopyPlain(dst.view(), src.view(), count, line);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
              int line = __builtin_LINE()) {
  lorica::ascend::CopyPieces(dst.view(), src.view(), params, line);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
              int line = __builtin_LINE()) {
  lorica::ascend::CopyPieces(dst.view(), src.view(), params, line);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
              int line = __builtin_LINE()) {
  lorica::ascend::CopyPieces(dst.view(), src.view(), params, line);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& params,
              int line = __builtin_LINE()) {
  lorica::ascend::CopyNd2Nz(dst.view(), src.view(), params, line);
}
// L0C -> UB on arch 2002 (PIPE_V); T equal to U, or T half and U float (rounded to even).
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& params,
              const DataCopyEnhancedParams& enhanced, int line = __builtin_LINE()) {
  lorica::ascend::CopyL0cToUb(dst.view(), src.view(), params, enhanced, line);
}
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                 const DataCopyExtParams& params, const DataCopyPadExtParams<T>& pad,
                 int line = __builtin_LINE()) {
  lorica::ascend::PadFill fill;
  fill.pad = pad.isPad;
  fill.left = pad.leftPadding;
  fill.right = pad.rightPadding;
  T value = pad.paddingValue;
  std::memcpy(&fill.value, &value, sizeof(T));
  lorica::ascend::CopyPad(dst.view(), src.view(), params, fill, line);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                 const DataCopyExtParams& params, int line = __builtin_LINE()) {
  lorica::ascend::CopyPad(dst.view(), src.view(), params, lorica::ascend::PadFill(), line);
}

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& params,
              int line = __builtin_LINE()) {
  lorica::ascend::Load2d(dst.view(), src.view(), params, line);
}
template <typename T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& params,
              int line = __builtin_LINE()) {
  lorica::ascend::Load2d(dst.view(), src.view(), params, line);
}
template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                           const LoadData2dTransposeParams& params, int line = __builtin_LINE()) {
  const LoadData2DParams plain(params.startIndex, params.repeatTimes, params.srcStride, 0,
                               params.dstGap, true, params.addrMode);
  lorica::ascend::Load2d(dst.view(), src.view(), plain, line);
}
template <typename C, typename A, typename B>
void Mmad(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b,
          const MmadParams& params, int line = __builtin_LINE()) {
  lorica::ascend::MmadOp(c.view(), a.view(), b.view(), nullptr, params, line);
}
template <typename C, typename A, typename B, typename V>
void Mmad(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b,
          const LocalTensor<V>& bias, const MmadParams& params, int line = __builtin_LINE()) {
  lorica::ascend::MmadOp(c.view(), a.view(), b.view(), &bias.view(), params, line);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& params,
             int line = __builtin_LINE()) {
  lorica::ascend::FixpipeOp(dst.view(), src.view(), params, config.format == CO2Layout::ROW_MAJOR,
                            line);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& params,
             int line = __builtin_LINE()) {
  lorica::ascend::FixpipeOp(dst.view(), src.view(), params, config.format == CO2Layout::ROW_MAJOR,
                            line);
}
namespace detail {
inline FixpipeParamsV220 FromCopyForm(const DataCopyCO12DstParams& params) {
  FixpipeParamsV220 fix(params.nSize, params.mSize, params.srcStride, params.dstStride,
                        params.reluPre != 0);
  fix.quantPre = params.quantPre;
  fix.unitFlag = params.unitFlag;
  fix.isChannelSplit = params.channelSplit;
  return fix;
}
}  // namespace detail
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
              const DataCopyCO12DstParams& params, int line = __builtin_LINE()) {
  lorica::ascend::FixpipeOp(dst.view(), src.view(), detail::FromCopyForm(params), params.nz2ndEn,
                            line);
}
template <typename T, typename U>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
              const DataCopyCO12DstParams& params, int line = __builtin_LINE()) {
  lorica::ascend::FixpipeOp(dst.view(), src.view(), detail::FromCopyForm(params), params.nz2ndEn,
                            line);
}

template <HardEvent event>
void SetFlag(int32_t id, int line = __builtin_LINE()) {
  lorica::ascend::SetFlagOp(static_cast<int>(event) / 8, static_cast<int>(event) % 8, id, line);
}
template <HardEvent event>
void WaitFlag(int32_t id, int line = __builtin_LINE()) {
  lorica::ascend::WaitFlagOp(static_cast<int>(event) / 8, static_cast<int>(event) % 8, id, line);
}
template <pipe_t pipe>
void PipeBarrier(int line = __builtin_LINE()) {
  lorica::ascend::BarrierOp(pipe, line);
}
template <uint8_t mode, pipe_t pipe>
void CrossCoreSetFlag(uint16_t id, int line = __builtin_LINE()) {
  lorica::ascend::CrossSetOp(mode, pipe, id, line);
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t id, int line = __builtin_LINE()) {
  lorica::ascend::CrossWaitOp(pipe, id, line);
}
template <bool aiv_only = true>
void SyncAll(int line = __builtin_LINE()) {
  lorica::ascend::SyncAllOp(aiv_only, line);
}
template <typename T>
void SetAtomicAdd() {
  lorica::ascend::SetAtomicOp(true, lorica::ascend::TypeOf<T>::value);
}
inline void SetAtomicNone() { lorica::ascend::SetAtomicOp(false, lorica::ascend::Type::kFloat); }
inline void DisableDmaAtomic() { SetAtomicNone(); }
template <typename T, CacheLine lines, DcciDst dst = DcciDst::CACHELINE_OUT>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& tensor, int line = __builtin_LINE()) {
  lorica::ascend::CacheClean(tensor.view(), lines == CacheLine::ENTIRE_DATA_CACHE, line);
}

inline int64_t GetBlockIdx() { return lorica::ascend::BlockIndex(); }
inline int64_t GetBlockNum() { return lorica::ascend::BlockCount(); }
inline int64_t GetSubBlockIdx() { return lorica::ascend::SubBlockIndex(); }
inline int64_t GetTaskRatio() { return lorica::ascend::TaskRatio(); }

}  // namespace AscendC
