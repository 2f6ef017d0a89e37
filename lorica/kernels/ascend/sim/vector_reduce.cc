// Reductions, Brcb and Gather of the vector unit. Sums go by a binary tree over neighbours; a lane
// that is masked off counts as zero.
#include <cstring>
#include <vector>

#include "lorica/kernels/ascend/sim/op.h"
#include "lorica/kernels/ascend/sim/vector_unit.h"

namespace lorica::ascend {
namespace {

float RoundAs(Type type, float value) {
  return type == Type::kHalf ? HalfBitsToFloat(FloatToHalfBits(value)) : value;
}

// Sum of `count` (a power of two) neighbours, rounded to the type at each level.
float Tree(Type type, float* values, int64_t count) {
  for (int64_t n = count; n > 1; n /= 2) {
    for (int64_t i = 0; i < n / 2; ++i) {
      values[i] = RoundAs(type, values[2 * i] + values[2 * i + 1]);
    }
  }
  return values[0];
}

const char* ReduceName(ReduceOp op) {
  static constexpr const char* kNames[] = {"WholeReduceSum", "BlockReduceSum", "PairReduceSum",
                                           "WholeReduceMax"};
  return kNames[static_cast<size_t>(op)];
}

bool FloatOrHalf(const View& view) { return view.type == Type::kFloat || view.type == Type::kHalf; }

}  // namespace

void VecReduce(ReduceOp op_code, const View& dst, const View& src, const ReduceShape& shape,
               int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_V, ReduceName(op_code), line);
  op.Require(dst.space == Space::kUb && src.space == Space::kUb && FloatOrHalf(src) &&
                 dst.type == src.type,
             ErrorKind::kNoPath, "reductions work in UB on float or half");
  op.Limit(shape.repeat >= 1 && shape.repeat <= 255, "repeat must be 1..255");
  if (!op.ok()) return;
  const int32_t size = TypeBytes(src.type);
  const int64_t lanes = 256 / size;
  const int64_t group = op_code == ReduceOp::kBlockSum  ? 32 / size
                        : op_code == ReduceOp::kPairSum ? 2
                                                        : lanes;
  const int64_t outputs = lanes / group;
  // Whole counts its target in elements, Block in 16 or 32 bytes of results, Pair in 128 bytes.
  const int64_t step = op_code == ReduceOp::kWholeSum || op_code == ReduceOp::kWholeMax
                           ? shape.dst_repeat * size
                           : shape.dst_repeat * outputs * size;
  const LaneWalk walk{shape.src_block, shape.src_repeat};
  op.Limit(src.offset % 32 == 0, "the source begins at a multiple of 32 bytes");
  ForMaskedBlocks(shape, walk, size, lanes, [&](const Strip& strip) { op.Reads(src, strip, 1); });
  op.Writes(dst, {0, outputs * size, step, shape.repeat}, size);
  if (!op.ok()) return;
  op.Cost(Path::kNone, 0,
          core->soc->vector_head + shape.repeat * (src.type == Type::kHalf ? 2.0 : 1.0));
  const uint8_t* data = core->Data(src);
  const uint8_t* shadow = core->Shadow(src);
  std::vector<float> values(static_cast<size_t>(lanes));
  std::vector<uint8_t> unset(static_cast<size_t>(lanes));
  for (int64_t r = 0; r < shape.repeat; ++r) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t at = LaneOffset(walk, size, r, lane);
      const bool on = LaneOn(shape.mask, lane);
      values[static_cast<size_t>(lane)] = on ? LoadFloat(src.type, data + at) : 0.0f;
      unset[static_cast<size_t>(lane)] = on ? shadow[at] : 0;
    }
    for (int64_t o = 0; o < outputs; ++o) {
      uint8_t any = 0;
      for (int64_t i = 0; i < group; ++i) any |= unset[static_cast<size_t>(o * group + i)];
      const float sum = Tree(src.type, values.data() + o * group, group);
      const int64_t at = r * step + o * size;
      StoreFloat(dst.type, core->Data(dst) + at, sum);
      std::memset(core->Shadow(dst) + at, any, static_cast<size_t>(size));
    }
  }
}

void VecReduceSum(const View& dst, const View& src, const View& work, int64_t count, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_V, "ReduceSum", line);
  op.Require(dst.space == Space::kUb && src.space == Space::kUb && work.space == Space::kUb &&
                 FloatOrHalf(src) && dst.type == src.type,
             ErrorKind::kNoPath, "reductions work in UB on float or half");
  op.Limit(count >= 1, "the count must be positive");
  if (!op.ok()) return;
  const int32_t size = TypeBytes(src.type);
  const int64_t lanes = 256 / size;
  const int64_t partials = CeilDiv(count, lanes);
  op.Reads(src, {0, count * size, 0, 1});
  if (partials > 1) op.Writes(work, {0, partials * size, 0, 1});
  op.Writes(dst, {0, size, 0, 1}, size);
  if (!op.ok()) return;
  double cycles = 0;
  std::vector<float> values(static_cast<size_t>(count));
  uint8_t any = 0;
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = LoadFloat(src.type, core->Data(src) + i * size);
    any |= core->Shadow(src)[i * size];
  }
  while (values.size() > 1) {
    const int64_t groups = CeilDiv(static_cast<int64_t>(values.size()), lanes);
    values.resize(static_cast<size_t>(groups * lanes), 0.0f);
    for (int64_t g = 0; g < groups; ++g) {
      values[static_cast<size_t>(g)] = Tree(src.type, values.data() + g * lanes, lanes);
    }
    values.resize(static_cast<size_t>(groups));
    cycles += core->soc->vector_head + static_cast<double>(groups);
  }
  op.Cost(Path::kNone, 0, cycles);
  if (partials > 1) {
    std::memset(core->Shadow(work), any, static_cast<size_t>(partials * size));
  }
  StoreFloat(dst.type, core->Data(dst), values[0]);
  std::memset(core->Shadow(dst), any, static_cast<size_t>(size));
}

void VecBrcb(const View& dst, const View& src, int32_t repeat,
             const AscendC::BrcbRepeatParams& params, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_V, "Brcb", line);
  op.Require(dst.space == Space::kUb && src.space == Space::kUb, ErrorKind::kNoPath,
             "Brcb works in UB");
  op.Limit(repeat >= 1, "repeat must be 1..255");
  if (!op.ok()) return;
  const int32_t size = TypeBytes(src.type);
  op.Reads(src, {0, repeat * int64_t{8} * size, 0, 1});
  for (int64_t r = 0; r < repeat; ++r) {
    op.Writes(dst, {r * params.dstRepStride * 32, 32, params.dstBlkStride * int64_t{32}, 8});
  }
  if (!op.ok()) return;
  op.Cost(Path::kNone, 0, core->soc->vector_head + repeat);
  for (int64_t r = 0; r < repeat; ++r) {
    for (int64_t b = 0; b < 8; ++b) {
      const int64_t to = (r * params.dstRepStride + b * params.dstBlkStride) * 32;
      const int64_t from = (r * 8 + b) * size;
      for (int64_t at = 0; at < 32; at += size) core->Move(dst, to + at, src, from, size);
    }
  }
}

void VecGather(const View& dst, const View& src, const View& byte_offsets, uint32_t base,
               int64_t count, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_V, "Gather", line);
  op.Require(dst.space == Space::kUb && src.space == Space::kUb && byte_offsets.space == Space::kUb,
             ErrorKind::kNoPath, "Gather works in UB");
  op.Limit(count >= 1, "the count must be positive");
  if (!op.ok()) return;
  const int32_t size = TypeBytes(dst.type);
  op.Reads(byte_offsets, {0, count * 4, 0, 1});
  if (!op.ok()) return;
  std::vector<int64_t> from(static_cast<size_t>(count));
  for (int64_t i = 0; i < count && op.ok(); ++i) {
    uint32_t offset;
    std::memcpy(&offset, core->Data(byte_offsets) + i * 4, 4);
    from[static_cast<size_t>(i)] = int64_t{base} + offset;
    op.Reads(src, {from[static_cast<size_t>(i)], size, 0, 1}, size);
  }
  op.Writes(dst, {0, count * size, 0, 1});
  if (!op.ok()) return;
  op.Cost(Path::kNone, 0, core->soc->vector_head + static_cast<double>(CeilDiv(count, 8)));
  for (int64_t i = 0; i < count; ++i) {
    core->Move(dst, i * size, src, from[static_cast<size_t>(i)], size);
  }
}

}  // namespace lorica::ascend
