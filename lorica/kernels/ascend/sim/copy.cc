// The copy calls of core_api.h: GM, L1, UB and the bias table.
#include <cstring>

#include "lorica/kernels/ascend/sim/op.h"

namespace lorica::ascend {
namespace {

struct Route {
  int pipe = PIPE_MTE2;
  Path path = Path::kNone;
  bool exists = false;
};

Route RouteOf(const Core& core, Space to, Space from) {
  const bool coupled = core.soc->arch == 2002;
  switch (from) {
    case Space::kGm:
      if (to == Space::kL1) return {PIPE_MTE2, Path::kGmToL1, true};
      if (to == Space::kUb) return {PIPE_MTE2, Path::kGmToUb, true};
      break;
    case Space::kUb:
      if (to == Space::kGm) return {PIPE_MTE3, Path::kUbToGm, true};
      if (to == Space::kUb) return {PIPE_V, Path::kNone, true};
      if (to == Space::kL1) return {PIPE_MTE3, Path::kUbToL1, coupled};
      break;
    case Space::kL1:
      if (to == Space::kGm) return {PIPE_MTE3, Path::kL1ToGm, !coupled};
      if (to == Space::kBt) return {PIPE_MTE1, Path::kL1ToL0B, !coupled};
      if (to == Space::kUb) return {PIPE_MTE1, Path::kUbToL1, coupled};
      break;
    default:
      break;
  }
  return {PIPE_MTE2, Path::kNone, false};
}

std::string PathText(Space to, Space from) {
  return std::string("this core has no path ") + SpaceName(from) + " -> " + SpaceName(to);
}

void Run(const char* name, const View& to, const View& from, const CopyShape& shape,
         const std::string& limit, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  const Route route = RouteOf(*core, to.space, from.space);
  Op op(core, route.pipe, name, line);
  op.Require(route.exists, ErrorKind::kNoPath, [&] { return PathText(to.space, from.space); });
  op.Limit(limit.empty(), limit);
  if (!op.ok()) return;
  const Strip source{0, shape.piece_bytes, shape.source_step, shape.pieces};
  const Strip target{0, shape.piece_bytes, shape.target_step, shape.pieces};
  op.Reads(from, source);
  op.Writes(to, target);
  if (!op.ok()) return;
  const bool gm = from.space == Space::kGm || to.space == Space::kGm;
  op.Cost(
      route.path,
      gm ? shape.pieces * RoundUp(shape.piece_bytes, kGmLine) : shape.pieces * shape.piece_bytes,
      route.path == Path::kNone
          ? static_cast<double>(CeilDiv(shape.pieces * shape.piece_bytes, 256))
          : 0);
  if (from.space == Space::kGm) op.Gm(from, source);
  if (to.space == Space::kGm) op.Gm(to, target);
  for (int64_t i = 0; i < shape.pieces; ++i) {
    core->Move(to, i * shape.target_step, from, i * shape.source_step, shape.piece_bytes);
  }
}

}  // namespace

void CopyPlain(const View& to, const View& from, int64_t elements, int line) {
  CopyShape shape;
  shape.piece_bytes = elements * TypeBytes(from.type);
  std::string limit;
  if (elements <= 0 || shape.piece_bytes % 32 != 0) {
    limit = "a count of " + std::to_string(elements) + " elements is not whole 32-byte blocks";
  }
  Run("DataCopy", to, from, shape, limit, line);
}

void CopyPieces(const View& to, const View& from, const AscendC::DataCopyParams& params, int line) {
  const int64_t unit = to.space == Space::kBt ? 64 : 32;
  CopyShape shape;
  shape.pieces = params.blockCount;
  shape.piece_bytes = params.blockLen * unit;
  shape.source_step = shape.piece_bytes + params.srcGap * int64_t{32};
  shape.target_step = shape.piece_bytes + params.dstGap * unit;
  std::string limit;
  if (params.blockCount < 1 || params.blockCount > 4095 || params.blockLen < 1) {
    limit = "blockCount " + std::to_string(params.blockCount) + " and blockLen " +
            std::to_string(params.blockLen) + " must be in 1..4095 and 1..65535";
  }
  Run("DataCopy", to, from, shape, limit, line);
}

void CopyNd2Nz(const View& to, const View& from, const AscendC::Nd2NzParams& p, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_MTE2, "DataCopy nd2nz", line);
  op.Require(to.space == Space::kL1 && from.space == Space::kGm, ErrorKind::kNoPath,
             "nd2nz goes from GM to L1 only");
  op.Limit(p.ndNum >= 1 && p.ndNum <= 4095 && p.nValue >= 1 && p.nValue <= 16384 && p.dValue >= 1 &&
               p.srcDValue >= 1 && p.dstNzC0Stride >= 1 && p.dstNzC0Stride <= 16384 &&
               p.dstNzNStride >= 1 && p.dstNzNStride <= 16384,
           "ndNum 1..4095, nValue, dstNzC0Stride and dstNzNStride 1..16384, dValue and "
           "srcDValue 1..65535");
  if (!op.ok()) return;
  const int64_t size = TypeBytes(from.type);
  const int64_t c0 = 32 / size;
  const int64_t columns = CeilDiv(p.dValue, c0);
  const int64_t row_step = p.dstNzNStride * int64_t{32};
  const int64_t column_step = p.dstNzC0Stride * int64_t{32};
  const bool dense = row_step == 32 && column_step == p.nValue * int64_t{32};
  Strip all;
  for (int64_t nd = 0; nd < p.ndNum; ++nd) {
    const Strip source{nd * p.srcNdMatrixStride * size, p.dValue * size, p.srcDValue * size,
                       p.nValue};
    op.Reads(from, source);
    if (nd == 0) all = source;
    const int64_t base = nd * p.dstNzMatrixStride * size;
    if (dense) {
      op.Writes(to, {base, columns * column_step, 0, 1});
    } else {
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t begin = base + c * column_step;
        if (row_step == 32) {
          op.Writes(to, {begin, p.nValue * int64_t{32}, 0, 1});
        } else {
          op.Writes(to, {begin, 32, row_step, p.nValue});
        }
      }
    }
  }
  if (!op.ok()) return;
  op.Cost(Path::kGmToL1, p.ndNum * p.nValue * RoundUp(p.dValue * size, kGmLine));
  if (p.ndNum > 1) {
    all.step = p.ndNum > 1 && p.nValue == 1 ? p.srcNdMatrixStride * size : all.step;
    all.count = int64_t{p.ndNum} * p.nValue;
  }
  op.Gm(from, all);
  uint8_t* target = core->Data(to);
  uint8_t* target_shadow = core->Shadow(to);
  const uint8_t* source = core->Data(from);
  const uint8_t* source_shadow = core->Shadow(from);
  for (int64_t nd = 0; nd < p.ndNum; ++nd) {
    for (int64_t n = 0; n < p.nValue; ++n) {
      const int64_t row = (nd * p.srcNdMatrixStride + n * p.srcDValue) * size;
      const int64_t base = nd * p.dstNzMatrixStride * size + n * row_step;
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t bytes = std::min<int64_t>(32, p.dValue * size - c * 32);
        uint8_t* block = target + base + c * column_step;
        uint8_t* shadow = target_shadow + base + c * column_step;
        if (bytes == 32) {
          std::memcpy(block, source + row + c * 32, 32);
          std::memset(shadow, 0, 32);
        } else {
          std::memset(block, 0, 32);
          std::memset(shadow, 0, 32);
          std::memcpy(block, source + row + c * 32, static_cast<size_t>(bytes));
        }
        if (source_shadow != nullptr) {
          std::memcpy(shadow, source_shadow + row + c * 32, static_cast<size_t>(bytes));
        }
      }
    }
  }
}

void CopyPad(const View& to, const View& from, const AscendC::DataCopyExtParams& p,
             const PadFill& fill, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  const bool load = from.space == Space::kGm;
  Op op(core, load ? PIPE_MTE2 : PIPE_MTE3, "DataCopyPad", line);
  op.Require(load ? to.space == Space::kUb : from.space == Space::kUb && to.space == Space::kGm,
             ErrorKind::kNoPath, "DataCopyPad goes between GM and UB");
  op.Require(core->soc->arch != 2002, ErrorKind::kNoPath, "arch 2002 has no DataCopyPad");
  const int64_t size = TypeBytes(from.type);
  const int64_t left = fill.pad ? fill.left * size : 0;
  const int64_t right = fill.pad ? fill.right * size : 0;
  op.Limit(p.blockCount >= 1 && p.blockCount <= 4095 && p.blockLen >= 1 && p.blockLen <= 2097151 &&
               left <= 32 && right <= 32,
           "blockCount 1..4095, blockLen 1..2097151, padding at most 32 bytes");
  if (!op.ok()) return;
  const int64_t held = left + p.blockLen + right;
  const int64_t local = RoundUp(held, 32);
  const int64_t local_step = local + (load ? p.dstStride : p.srcStride) * int64_t{32};
  const int64_t gm_step = p.blockLen + int64_t{load ? p.srcStride : p.dstStride};
  const Strip gm{0, p.blockLen, gm_step, p.blockCount};
  // A store reads the bytes of the piece alone; a load fills whole blocks.
  const Strip ub{0, load ? local : p.blockLen, local_step, p.blockCount};
  op.Reads(from, load ? gm : ub);
  op.Writes(to, load ? ub : gm);
  if (!op.ok()) return;
  op.Cost(load ? Path::kGmToUb : Path::kUbToGm, p.blockCount * RoundUp(p.blockLen, kGmLine));
  op.Gm(load ? from : to, gm);
  for (int64_t i = 0; i < p.blockCount; ++i) {
    if (!load) {
      core->Move(to, i * gm_step, from, i * local_step, p.blockLen);
      continue;
    }
    uint8_t* data = core->Data(to) + i * local_step;
    uint8_t* shadow = core->Shadow(to) + i * local_step;
    std::memset(data, 0xCD, static_cast<size_t>(local));
    std::memset(shadow, 1, static_cast<size_t>(local));
    for (int64_t at = 0; fill.pad && at < held; at += size) {
      if (at >= left && at < left + p.blockLen) continue;
      std::memcpy(data + at, &fill.value, static_cast<size_t>(size));
      std::memset(shadow + at, 0, static_cast<size_t>(size));
    }
    core->Move(to, i * local_step + left, from, i * gm_step, p.blockLen);
  }
}

void CopyL0cToUb(const View& to, const View& from, const AscendC::DataCopyParams& p,
                 const AscendC::DataCopyEnhancedParams& enhanced, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_V, "DataCopy L0C->UB", line);
  op.Require(core->soc->arch == 2002 && from.space == Space::kL0C && to.space == Space::kUb,
             ErrorKind::kNoPath, [&] { return PathText(to.space, from.space); });
  op.Require(from.type == Type::kFloat && (to.type == Type::kFloat || to.type == Type::kHalf),
             ErrorKind::kNoPath, "L0C -> UB gives float or half from float");
  op.Limit(enhanced.blockMode == AscendC::BlockMode::BLOCK_MODE_MATRIX,
           "only BLOCK_MODE_MATRIX is modelled");
  op.Limit(p.blockCount >= 1 && p.blockCount <= 4095 && p.blockLen >= 1,
           "blockCount 1..4095, blockLen at least 1");
  if (!op.ok()) return;
  const int64_t elements = p.blockLen * int64_t{256};
  const int64_t size = TypeBytes(to.type);
  const int64_t source_step = (p.blockLen + int64_t{p.srcGap}) * 1024;
  const int64_t target_step = elements * size + p.dstGap * int64_t{32};
  op.Reads(from, {0, elements * 4, source_step, p.blockCount});
  op.Writes(to, {0, elements * size, target_step, p.blockCount});
  if (!op.ok()) return;
  op.Cost(Path::kL0cToUb, p.blockCount * elements * 4);
  for (int64_t i = 0; i < p.blockCount; ++i) {
    if (size == 4) {
      core->Move(to, i * target_step, from, i * source_step, elements * 4);
      continue;
    }
    const uint8_t* source = core->Data(from) + i * source_step;
    const uint8_t* source_shadow = core->Shadow(from) + i * source_step;
    uint8_t* target = core->Data(to) + i * target_step;
    uint8_t* target_shadow = core->Shadow(to) + i * target_step;
    for (int64_t e = 0; e < elements; ++e) {
      float value;
      std::memcpy(&value, source + e * 4, 4);
      const uint16_t bits = FloatToHalfBits(value);
      std::memcpy(target + e * 2, &bits, 2);
      std::memset(target_shadow + e * 2, source_shadow[e * 4], 2);
    }
  }
}

}  // namespace lorica::ascend
