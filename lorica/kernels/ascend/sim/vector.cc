// The vector unit: element-wise operations under masks and repeats. 16-bit arithmetic is exact in
// float and rounded once to nearest even.
#include <cmath>
#include <cstring>

#include "lorica/kernels/ascend/sim/op.h"
#include "lorica/kernels/ascend/sim/vector_unit.h"

namespace lorica::ascend {

void MaskOfLanes(uint64_t lanes, uint64_t mask[2]) {
  const auto word = [](uint64_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; };
  mask[0] = word(lanes);
  mask[1] = lanes > 64 ? word(lanes - 64) : 0;
}

int64_t LaneOffset(const LaneWalk& walk, int32_t size, int64_t repeat, int64_t lane) {
  const int64_t a_block = 32 / size;
  return (repeat * walk.repeat_stride + lane / a_block * walk.block_stride) * 32 +
         lane % a_block * size;
}

float LoadFloat(Type type, const uint8_t* at) {
  uint16_t bits;
  float value;
  int32_t integer;
  switch (type) {
    case Type::kHalf:
      std::memcpy(&bits, at, 2);
      return HalfBitsToFloat(bits);
    case Type::kBf16:
      std::memcpy(&bits, at, 2);
      return Bf16BitsToFloat(bits);
    case Type::kFloat:
      std::memcpy(&value, at, 4);
      return value;
    default:
      std::memcpy(&integer, at, 4);
      return static_cast<float>(integer);
  }
}

void StoreFloat(Type type, uint8_t* at, float value) {
  uint16_t bits;
  switch (type) {
    case Type::kHalf:
      bits = FloatToHalfBits(value);
      std::memcpy(at, &bits, 2);
      return;
    case Type::kBf16:
      bits = FloatToBf16Bits(value);
      std::memcpy(at, &bits, 2);
      return;
    default:
      std::memcpy(at, &value, 4);
      return;
  }
}

namespace {

const char* OpName(VecOp op) {
  static constexpr const char* kNames[] = {
      "Add",  "Sub",       "Mul", "Div", "Max", "Min",  "Adds",       "Muls", "Maxs",      "Mins",
      "Axpy", "MulAddDst", "Exp", "Ln",  "Abs", "Sqrt", "Reciprocal", "Relu", "Duplicate", "Cast"};
  return kNames[static_cast<size_t>(op)];
}

float Compute(VecOp op, float d, float a, float b, float scalar) {
  switch (op) {
    case VecOp::kAdd:
      return a + b;
    case VecOp::kSub:
      return a - b;
    case VecOp::kMul:
      return a * b;
    case VecOp::kDiv:
      return a / b;
    case VecOp::kMax:
      return a > b ? a : b;
    case VecOp::kMin:
      return a < b ? a : b;
    case VecOp::kAdds:
      return a + scalar;
    case VecOp::kMuls:
      return a * scalar;
    case VecOp::kMaxs:
      return a > scalar ? a : scalar;
    case VecOp::kMins:
      return a < scalar ? a : scalar;
    case VecOp::kAxpy:
      return d + a * scalar;
    case VecOp::kMulAddDst:
      return d + a * b;
    case VecOp::kExp:
      return std::exp(a);
    case VecOp::kLn:
      return std::log(a);
    case VecOp::kAbs:
      return std::fabs(a);
    case VecOp::kSqrt:
      return std::sqrt(a);
    case VecOp::kRec:
      return 1.0f / a;
    case VecOp::kRelu:
      return a > 0 ? a : 0.0f;
    case VecOp::kDuplicate:
      return scalar;
    case VecOp::kCast:
      return a;
  }
  return a;
}

int32_t ComputeInt(VecOp op, int32_t d, int32_t a, int32_t b, int32_t scalar) {
  // Unsigned sums wrap, as the unit's do.
  const auto sum = [](int32_t x, int32_t y) {
    return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
  };
  const auto product = [](int32_t x, int32_t y) {
    return static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
  };
  switch (op) {
    case VecOp::kAdd:
      return sum(a, b);
    case VecOp::kSub:
      return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
    case VecOp::kMul:
      return product(a, b);
    case VecOp::kMax:
      return a > b ? a : b;
    case VecOp::kMin:
      return a < b ? a : b;
    case VecOp::kAdds:
      return sum(a, scalar);
    case VecOp::kMuls:
      return product(a, scalar);
    case VecOp::kMaxs:
      return a > scalar ? a : scalar;
    case VecOp::kMins:
      return a < scalar ? a : scalar;
    case VecOp::kDuplicate:
      return scalar;
    default:
      return d;
  }
}

float RoundWhole(float value, Rounding mode) {
  switch (mode) {
    case Rounding::kFloor:
      return std::floor(value);
    case Rounding::kCeil:
      return std::ceil(value);
    case Rounding::kTrunc:
      return std::trunc(value);
    case Rounding::kRound:
      return std::round(value);
    default:
      return std::nearbyint(value);
  }
}

void CastOne(Type to, uint8_t* d, Type from, const uint8_t* a, Rounding mode) {
  if (to == Type::kInt32) {
    const float whole = RoundWhole(LoadFloat(from, a), mode);
    const int32_t value = whole >= 2147483648.0f   ? INT32_MAX
                          : whole < -2147483648.0f ? INT32_MIN
                          : whole != whole         ? 0
                                                   : static_cast<int32_t>(whole);
    std::memcpy(d, &value, 4);
    return;
  }
  const float value = LoadFloat(from, a);
  if (to == Type::kFloat || mode == Rounding::kRint || mode == Rounding::kNone) {
    StoreFloat(to, d, value);
    return;
  }
  const uint16_t bits =
      to == Type::kHalf ? RoundToHalfBits(value, mode) : RoundToBf16Bits(value, mode);
  std::memcpy(d, &bits, 2);
}

bool CastExists(Type to, Type from, bool bf16) {
  const auto is = [&](Type x, Type y) { return to == x && from == y; };
  return is(Type::kFloat, Type::kHalf) || is(Type::kHalf, Type::kFloat) ||
         is(Type::kFloat, Type::kInt32) || is(Type::kInt32, Type::kFloat) ||
         is(Type::kInt32, Type::kHalf) || is(Type::kFloat, Type::kFloat) ||
         (bf16 && (is(Type::kFloat, Type::kBf16) || is(Type::kBf16, Type::kFloat) ||
                   is(Type::kInt32, Type::kBf16)));
}

bool IsSlow(VecOp op) {
  return op == VecOp::kDiv || op == VecOp::kExp || op == VecOp::kLn || op == VecOp::kSqrt ||
         op == VecOp::kMulAddDst;
}

struct Operand {
  const View* view;
  uint8_t* data;
  uint8_t* shadow;
  int32_t size;
  LaneWalk walk;
};

// The common case, count form in float: the switch on the operation is outside of the loop.
void FloatsInARow(VecOp op, int64_t count, float scalar, const Operand* operands, bool reads_dst) {
  float* d = reinterpret_cast<float*>(operands[0].data);
  const float* a = reinterpret_cast<const float*>(operands[1].data);
  const float* b = reinterpret_cast<const float*>(operands[2].data);
  const auto run = [&](const auto& f) {
    for (int64_t i = 0; i < count; ++i) {
      d[i] = f(d[i], a == nullptr ? 0.0f : a[i], b == nullptr ? 0.0f : b[i]);
    }
  };
  switch (op) {
    case VecOp::kAdd:
      run([](float, float x, float y) { return x + y; });
      break;
    case VecOp::kMul:
      run([](float, float x, float y) { return x * y; });
      break;
    case VecOp::kMuls:
      run([=](float, float x, float) { return x * scalar; });
      break;
    case VecOp::kAxpy:
      run([=](float z, float x, float) { return z + x * scalar; });
      break;
    default:
      run([=](float z, float x, float y) { return Compute(op, z, x, y, scalar); });
      break;
  }
  uint8_t* shadow = operands[0].shadow;
  for (int64_t i = 0; i < count * 4; ++i) {
    shadow[i] = static_cast<uint8_t>((reads_dst ? shadow[i] : 0) |
                                     (a == nullptr ? 0 : operands[1].shadow[i]) |
                                     (b == nullptr ? 0 : operands[2].shadow[i]));
  }
}

}  // namespace

void VecElementwise(VecOp op_code, const View& dst, const View* a, const View* b, double scalar,
                    AscendC::RoundMode mode, const VecShape& shape, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_V, OpName(op_code), line);
  const bool in_ub = dst.space == Space::kUb && (a == nullptr || a->space == Space::kUb) &&
                     (b == nullptr || b->space == Space::kUb);
  op.Require(in_ub, ErrorKind::kNoPath, "the vector unit works in UB");
  const Type from = a == nullptr ? dst.type : a->type;
  const bool is_cast = op_code == VecOp::kCast;
  const bool integer = dst.type == Type::kInt32 && !is_cast;
  op.Require(is_cast ? CastExists(dst.type, from, core->soc->has_bf16)
                     : integer || dst.type == Type::kFloat || dst.type == Type::kHalf ||
                           (op_code == VecOp::kDuplicate && TypeBytes(dst.type) <= 4 &&
                            TypeBytes(dst.type) >= 2),
             ErrorKind::kNoPath, [&] {
               return std::string("no ") + OpName(op_code) + " of " + TypeName(from) + " to " +
                      TypeName(dst.type);
             });
  op.Limit(shape.count > 0 || (shape.count == 0 && shape.repeat >= 1 && shape.repeat <= 255),
           "the count must be positive, or repeat 1..255");
  if (!op.ok()) return;

  Operand operands[3] = {{&dst,
                          core->Data(dst),
                          core->Shadow(dst),
                          TypeBytes(dst.type),
                          {shape.dst_block, shape.dst_repeat}},
                         {a, nullptr, nullptr, TypeBytes(from), {shape.a_block, shape.a_repeat}},
                         {b, nullptr, nullptr, TypeBytes(from), {shape.b_block, shape.b_repeat}}};
  const int32_t widest = std::max(operands[0].size, operands[1].size);
  const int64_t lanes = 256 / widest;
  const int64_t repeats = shape.count > 0 ? CeilDiv(shape.count, lanes) : shape.repeat;
  op.Limit(shape.count > 0 || lanes > 64 || shape.mask[1] == 0, [&] {
    return "the mask has more lanes than the " + std::to_string(lanes) + " of a repeat";
  });
  const bool reads_dst = op_code == VecOp::kAxpy || op_code == VecOp::kMulAddDst;
  for (int i = 1; i < 3; ++i) {
    if (operands[i].view == nullptr || shape.count == 0) continue;
    const int64_t apart = operands[i].view->offset - dst.offset;
    op.Limit(apart == 0 || apart >= shape.count * operands[0].size ||
                 -apart >= shape.count * operands[i].size,
             "source and target overlap in part");
  }
  for (int i = 0; i < 3; ++i) {
    if (operands[i].view == nullptr) continue;
    if (shape.count > 0) {
      const Strip strip{0, shape.count * operands[i].size, 0, 1};
      if (i > 0 || reads_dst) op.Reads(*operands[i].view, strip);
    } else if (i > 0 || reads_dst) {
      ForMaskedBlocks(shape, operands[i].walk, operands[i].size, lanes,
                      [&](const Strip& strip) { op.Reads(*operands[i].view, strip, 1); });
    }
  }
  if (shape.count > 0) {
    op.Writes(dst, {0, shape.count * operands[0].size, 0, 1});
  } else {
    op.Limit(dst.offset % 32 == 0 && (a == nullptr || a->offset % 32 == 0) &&
                 (b == nullptr || b->offset % 32 == 0),
             "operands begin at multiples of 32 bytes");
    ForMaskedBlocks(shape, operands[0].walk, operands[0].size, lanes,
                    [&](const Strip& strip) { op.Writes(dst, strip, 1); });
  }
  if (!op.ok()) return;
  op.Cost(Path::kNone, 0,
          core->soc->vector_head + static_cast<double>(repeats) * (IsSlow(op_code) ? 2 : 1));
  for (int i = 1; i < 3; ++i) {
    if (operands[i].view == nullptr) continue;
    operands[i].data = core->Data(*operands[i].view);
    operands[i].shadow = core->Shadow(*operands[i].view);
  }
  const float factor = static_cast<float>(scalar);
  const auto one = [&](int64_t d, int64_t x, int64_t y) {
    uint8_t* to = operands[0].data + d;
    const uint8_t* from_a = a == nullptr ? nullptr : operands[1].data + x;
    const uint8_t* from_b = b == nullptr ? nullptr : operands[2].data + y;
    const uint8_t unset = static_cast<uint8_t>((reads_dst ? operands[0].shadow[d] : 0) |
                                               (a == nullptr ? 0 : operands[1].shadow[x]) |
                                               (b == nullptr ? 0 : operands[2].shadow[y]));
    std::memset(operands[0].shadow + d, unset, static_cast<size_t>(operands[0].size));
    if (is_cast) {
      CastOne(dst.type, to, from, from_a, static_cast<Rounding>(mode));
    } else if (operands[0].size == 4 && dst.type != Type::kFloat) {
      int32_t v[3] = {0, 0, 0};
      std::memcpy(&v[0], to, 4);
      if (from_a != nullptr) std::memcpy(&v[1], from_a, 4);
      if (from_b != nullptr) std::memcpy(&v[2], from_b, 4);
      const int32_t value =
          ComputeInt(op_code, v[0], v[1], v[2], static_cast<int32_t>(static_cast<int64_t>(scalar)));
      std::memcpy(to, &value, 4);
    } else if (dst.type == Type::kInt16 || dst.type == Type::kUint16) {
      const int16_t value = static_cast<int16_t>(static_cast<int64_t>(scalar));
      std::memcpy(to, &value, 2);
    } else {
      StoreFloat(dst.type, to,
                 Compute(op_code, reads_dst ? LoadFloat(dst.type, to) : 0.0f,
                         from_a == nullptr ? 0.0f : LoadFloat(from, from_a),
                         from_b == nullptr ? 0.0f : LoadFloat(from, from_b), factor));
    }
  };
  if (shape.count > 0 && dst.type == Type::kFloat && from == Type::kFloat && !is_cast) {
    FloatsInARow(op_code, shape.count, factor, operands, reads_dst);
    return;
  }
  if (shape.count > 0) {
    for (int64_t i = 0; i < shape.count; ++i) {
      one(i * operands[0].size, i * operands[1].size, i * operands[2].size);
    }
    return;
  }
  for (int64_t r = 0; r < repeats; ++r) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      if (!LaneOn(shape.mask, lane)) continue;
      one(LaneOffset(operands[0].walk, operands[0].size, r, lane),
          LaneOffset(operands[1].walk, operands[1].size, r, lane),
          LaneOffset(operands[2].walk, operands[2].size, r, lane));
    }
  }
}

}  // namespace lorica::ascend
