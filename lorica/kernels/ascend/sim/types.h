// The AscendC enums and parameter structs that kernels name, in our words. Facts from
// docs/ascend.md; units are given with each field. C++17: kernel sources see this header.
#pragma once

#include <cstdint>

#include "lorica/kernels/ascend/sim/float16.h"

using half = lorica::ascend::Half;
using bfloat16_t = lorica::ascend::Bfloat16;

// A core's units, each a queue that runs in order beside the others. PIPE_S issues to all.
enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };

// What Fixpipe does to an element of L0C on its way.
enum QuantMode_t { NoQuant = 0, F322F16 = 1, F322BF16 = 16 };

using event_t = int32_t;
constexpr event_t EVENT_ID0 = 0;
constexpr event_t EVENT_ID1 = 1;
constexpr event_t EVENT_ID2 = 2;
constexpr event_t EVENT_ID3 = 3;
constexpr event_t EVENT_ID4 = 4;
constexpr event_t EVENT_ID5 = 5;
constexpr event_t EVENT_ID6 = 6;
constexpr event_t EVENT_ID7 = 7;

namespace AscendC {

using ::event_t;

// A1 B1 C1 lie in L1, A2 in L0A, B2 in L0B, CO1 in L0C, C2 in the bias table, CO2 and VEC* in UB.
enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  MAX
};
using QuePosition = TPosition;

// FROM_TO: `TO` waits for `FROM`. The value is FROM * 8 + TO.
enum class HardEvent : uint8_t {
  MTE2_MTE1 = PIPE_MTE2 * 8 + PIPE_MTE1,
  MTE1_MTE2 = PIPE_MTE1 * 8 + PIPE_MTE2,
  MTE1_M = PIPE_MTE1 * 8 + PIPE_M,
  M_MTE1 = PIPE_M * 8 + PIPE_MTE1,
  MTE2_V = PIPE_MTE2 * 8 + PIPE_V,
  V_MTE2 = PIPE_V * 8 + PIPE_MTE2,
  MTE3_V = PIPE_MTE3 * 8 + PIPE_V,
  V_MTE3 = PIPE_V * 8 + PIPE_MTE3,
  M_V = PIPE_M * 8 + PIPE_V,
  V_M = PIPE_V * 8 + PIPE_M,
  MTE3_MTE1 = PIPE_MTE3 * 8 + PIPE_MTE1,
  MTE1_MTE3 = PIPE_MTE1 * 8 + PIPE_MTE3,
  MTE1_V = PIPE_MTE1 * 8 + PIPE_V,
  V_MTE1 = PIPE_V * 8 + PIPE_MTE1,
  MTE2_M = PIPE_MTE2 * 8 + PIPE_M,
  M_MTE2 = PIPE_M * 8 + PIPE_MTE2,
  M_FIX = PIPE_M * 8 + PIPE_FIX,
  FIX_M = PIPE_FIX * 8 + PIPE_M,
  MTE3_MTE2 = PIPE_MTE3 * 8 + PIPE_MTE2,
  MTE2_MTE3 = PIPE_MTE2 * 8 + PIPE_MTE3,
  S_V = PIPE_S * 8 + PIPE_V,
  V_S = PIPE_V * 8 + PIPE_S,
  S_MTE2 = PIPE_S * 8 + PIPE_MTE2,
  MTE2_S = PIPE_MTE2 * 8 + PIPE_S,
  S_MTE3 = PIPE_S * 8 + PIPE_MTE3,
  MTE3_S = PIPE_MTE3 * 8 + PIPE_S,
  MTE2_FIX = PIPE_MTE2 * 8 + PIPE_FIX,
  FIX_MTE2 = PIPE_FIX * 8 + PIPE_MTE2,
  FIX_S = PIPE_FIX * 8 + PIPE_S,
  M_S = PIPE_M * 8 + PIPE_S,
  FIX_MTE3 = PIPE_FIX * 8 + PIPE_MTE3,
  MTE1_FIX = PIPE_MTE1 * 8 + PIPE_FIX,
  FIX_MTE1 = PIPE_FIX * 8 + PIPE_MTE1
};

enum class RoundMode : uint8_t {
  CAST_NONE,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD
};
enum class CacheLine : uint8_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint8_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class BlockMode : uint8_t { BLOCK_MODE_NORMAL, BLOCK_MODE_MATRIX, BLOCK_MODE_VECTOR };

// DataCopy in pieces: `blockCount` pieces of `blockLen` 32-byte blocks; gaps from the end of one
// piece to the start of the next, in blocks of 32 bytes (GM, L1, UB).
struct DataCopyParams {
  uint16_t blockCount = 1;  // 1..4095
  uint16_t blockLen = 0;    // 1..65535
  union {
    uint16_t srcGap = 0;
    uint16_t srcStride;
  };
  union {
    uint16_t dstGap = 0;
    uint16_t dstStride;
  };
  DataCopyParams() = default;
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src_gap, uint16_t dst_gap)
      : blockCount(count), blockLen(len), srcGap(src_gap), dstGap(dst_gap) {}
};

// L0C -> UB on arch 2002. BLOCK_MODE_MATRIX: blockLen and srcGap of DataCopyParams count 16 x 16
// fractals of the source, dstGap 32-byte blocks.
struct DataCopyEnhancedParams {
  BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
};

// GM -> L1, rows to fractals. Source: `ndNum` matrices of nValue rows x dValue elements, rows
// srcDValue elements apart, matrices srcNdMatrixStride elements apart. Target: element (n, d) of
// matrix i at i * dstNzMatrixStride elements + (d / c0) * dstNzC0Stride * 32 bytes
// + n * dstNzNStride * 32 bytes + (d % c0), c0 = 32 bytes of elements; d padded to c0 with zeros.
struct Nd2NzParams {
  uint16_t ndNum = 1;
  uint16_t nValue = 0;
  uint16_t dValue = 0;
  uint16_t srcNdMatrixStride = 0;
  uint16_t srcDValue = 0;
  uint16_t dstNzC0Stride = 0;
  uint16_t dstNzNStride = 1;
  uint16_t dstNzMatrixStride = 0;
  Nd2NzParams() = default;
  Nd2NzParams(uint16_t nd, uint16_t n, uint16_t d, uint16_t src_matrix, uint16_t src_d,
              uint16_t c0_stride, uint16_t n_stride, uint16_t dst_matrix)
      : ndNum(nd),
        nValue(n),
        dValue(d),
        srcNdMatrixStride(src_matrix),
        srcDValue(src_d),
        dstNzC0Stride(c0_stride),
        dstNzNStride(n_stride),
        dstNzMatrixStride(dst_matrix) {}
};

// GM <-> UB by bytes: `blockCount` pieces of `blockLen` bytes; gaps from end to start: in bytes on
// the GM side, in 32-byte blocks on the UB side. A piece takes whole blocks of UB.
struct DataCopyExtParams {
  uint16_t blockCount = 1;
  uint32_t blockLen = 0;
  uint32_t srcStride = 0;
  uint32_t dstStride = 0;
  uint32_t rsv = 0;
  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src, uint32_t dst, uint32_t reserved)
      : blockCount(count), blockLen(len), srcStride(src), dstStride(dst), rsv(reserved) {}
};
template <typename T>
struct DataCopyPadExtParams {
  bool isPad = false;  // else the padding of a block is undefined
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  T paddingValue = T();
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

// L1 (or GM) -> L0A / L0B in fractals of 512 bytes: fractal i from startIndex + i * srcStride to
// i * (1 + dstGap). ifTranspose turns each 16 x 16 fractal of 16-bit elements.
struct LoadData2DParams {
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;  // 1..255
  uint16_t srcStride = 0;
  uint8_t sid = 0;
  uint16_t dstGap = 0;
  bool ifTranspose = false;
  uint8_t addrMode = 0;
  LoadData2DParams() = default;
  LoadData2DParams(uint16_t start, uint8_t repeat, uint16_t src_stride, uint8_t sid_in,
                   uint16_t dst_gap, bool transpose, uint8_t mode)
      : startIndex(start),
        repeatTimes(repeat),
        srcStride(src_stride),
        sid(sid_in),
        dstGap(dst_gap),
        ifTranspose(transpose),
        addrMode(mode) {}
};
// 16-bit elements only here: fractal i as above, transposed.
struct LoadData2dTransposeParams {
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0;
  uint16_t dstGap = 0;
  uint16_t dstFracGap = 0;
  uint8_t addrMode = 0;
};

// C[m, n] (+)= A[m, k] * B[k, n]. Every size 0..4095. m == 1 is GEMV: A is read as k packed
// elements. cmatrixInitVal: C starts from zero; else from L0C (cmatrixSource false) or from the
// bias table (true).
struct MmadParams {
  uint16_t m = 0;
  uint16_t n = 0;
  uint16_t k = 0;
  uint8_t unitFlag = 0;
  bool cmatrixSource = false;
  bool cmatrixInitVal = true;
  MmadParams() = default;
  MmadParams(uint16_t m_in, uint16_t n_in, uint16_t k_in, uint8_t unit, bool source, bool init)
      : m(m_in), n(n_in), k(k_in), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(init) {}
};

// L0C -> GM or L1. srcStride: rows of L0C from one column block of 16 to the next (a multiple of
// 16). dstStride: ND: elements from row to row; NZ: 32-byte blocks from column block to column
// block. ndNum matrices: srcNdStride in fractals of 1,024 bytes, dstNdStride in elements.
struct FixpipeParamsV220 {
  uint16_t nSize = 0;
  uint16_t mSize = 0;
  uint16_t srcStride = 0;
  uint32_t dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1;
  uint16_t srcNdStride = 0;
  uint16_t dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
  FixpipeParamsV220() = default;
  FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src_stride, uint32_t dst_stride, bool relu)
      : nSize(n), mSize(m), srcStride(src_stride), dstStride(dst_stride), reluEn(relu) {}
};
// The copy form of the same path.
struct DataCopyCO12DstParams {
  uint8_t sid = 0;
  uint16_t nSize = 0;
  uint16_t mSize = 0;
  uint32_t dstStride = 0;
  uint16_t srcStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint8_t reluPre = 0;
  uint8_t unitFlag = 0;
  uint8_t clipReluPre = 0;
  uint8_t eltWiseOp = 0;
  bool channelSplit = false;
  bool nz2ndEn = false;
};
enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR };
struct FixpipeConfig {
  CO2Layout format;
};
constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

// A repeat handles 256 bytes of the wider type: 8 blocks of 32 bytes. Strides in such blocks:
// *BlkStride between the blocks of a repeat, *RepStride between repeats.
struct UnaryRepeatParams {
  uint16_t dstBlkStride = 1;
  uint16_t srcBlkStride = 1;
  uint16_t dstRepStride = 8;
  uint16_t srcRepStride = 8;
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dst_blk, uint16_t src_blk, uint16_t dst_rep, uint16_t src_rep)
      : dstBlkStride(dst_blk),
        srcBlkStride(src_blk),
        dstRepStride(dst_rep),
        srcRepStride(src_rep) {}
};
struct BinaryRepeatParams {
  uint8_t dstBlkStride = 1;
  uint8_t src0BlkStride = 1;
  uint8_t src1BlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t src0RepStride = 8;
  uint8_t src1RepStride = 8;
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dst_blk, uint8_t a_blk, uint8_t b_blk, uint8_t dst_rep, uint8_t a_rep,
                     uint8_t b_rep)
      : dstBlkStride(dst_blk),
        src0BlkStride(a_blk),
        src1BlkStride(b_blk),
        dstRepStride(dst_rep),
        src0RepStride(a_rep),
        src1RepStride(b_rep) {}
};
struct BrcbRepeatParams {
  uint16_t dstBlkStride = 1;
  uint16_t dstRepStride = 8;
  BrcbRepeatParams() = default;
  BrcbRepeatParams(uint16_t blk, uint16_t rep) : dstBlkStride(blk), dstRepStride(rep) {}
};

}  // namespace AscendC
