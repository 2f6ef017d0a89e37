// Fixpipe, and stores to GM: rounding, atomics, and the check that nothing uninitialised leaves.
#include <cstring>
#include <vector>

#include "lorica/kernels/ascend/sim/op.h"

namespace lorica::ascend {
namespace {

template <typename T>
void AddElement(uint8_t* at, const uint8_t* add) {
  T old, value;
  std::memcpy(&old, at, sizeof(T));
  std::memcpy(&value, add, sizeof(T));
  old = static_cast<T>(old + value);
  std::memcpy(at, &old, sizeof(T));
}

void AtomicAdd(Type type, uint8_t* at, const uint8_t* add) {
  switch (type) {
    case Type::kHalf: {
      Half old, value;
      std::memcpy(&old, at, 2);
      std::memcpy(&value, add, 2);
      old = Half(static_cast<float>(old) + static_cast<float>(value));
      std::memcpy(at, &old, 2);
      return;
    }
    case Type::kBf16: {
      Bfloat16 old, value;
      std::memcpy(&old, at, 2);
      std::memcpy(&value, add, 2);
      // A float sum of two bf16 may round; the double sum is exact enough to round once.
      const double sum = static_cast<double>(static_cast<float>(old)) + static_cast<float>(value);
      old.bits = RoundToBf16Bits(sum, Rounding::kRint);
      std::memcpy(at, &old, 2);
      return;
    }
    case Type::kFloat:
      return AddElement<float>(at, add);
    case Type::kInt32:
      return AddElement<int32_t>(at, add);
    case Type::kInt16:
      return AddElement<int16_t>(at, add);
    case Type::kInt8:
      return AddElement<int8_t>(at, add);
    default:
      return;
  }
}

}  // namespace

void Core::StoreGm(const View& to, int64_t offset, const uint8_t* data, const uint8_t* shadow,
                   int64_t bytes) {
  uint8_t* at = to.gm + offset;
  uint8_t* to_shadow = Shadow(to);
  if (to_shadow != nullptr) to_shadow += offset;
  const size_t size = static_cast<size_t>(bytes);
  if (shadow != nullptr && std::memchr(shadow, 1, size) != nullptr) {
    const int64_t first = static_cast<const uint8_t*>(std::memchr(shadow, 1, size)) - shadow;
    Error(ErrorKind::kUninitialised, "%s: uninitialised data reaches %s", Describe(current).c_str(),
          DescribeRange(to, offset + first, offset + first + 1).c_str());
  }
  if (!atomic) {
    std::memcpy(at, data, size);
    if (to_shadow != nullptr) std::memset(to_shadow, 0, size);
    return;
  }
  if (to_shadow != nullptr && std::memchr(to_shadow, 1, size) != nullptr) {
    Error(ErrorKind::kUninitialised, "%s: an atomic adds to uninitialised %s",
          Describe(current).c_str(), DescribeRange(to, offset, offset + bytes).c_str());
    std::memset(to_shadow, 0, size);
  }
  const int64_t step = TypeBytes(atomic_type);
  for (int64_t i = 0; i + step <= bytes; i += step) AtomicAdd(atomic_type, at + i, data + i);
}

void SetAtomicOp(bool on, Type type) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  core->atomic = on;
  core->atomic_type = type;
}

void FixpipeOp(const View& to, const View& l0c, const AscendC::FixpipeParamsV220& p, bool row_major,
               int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  const bool to_l1 = to.space == Space::kL1;
  Op op(core, PIPE_FIX, to_l1 ? "Fixpipe L0C->L1" : "Fixpipe L0C->GM", line);
  op.Require(core->soc->arch != 2002, ErrorKind::kNoPath, "arch 2002 has no Fixpipe");
  op.Require(l0c.space == Space::kL0C && (to_l1 || to.space == Space::kGm), ErrorKind::kNoPath,
             [&] {
               return std::string("Fixpipe has no path ") + SpaceName(l0c.space) + " -> " +
                      SpaceName(to.space);
             });
  op.Require(!to_l1 || p.quantPre != QuantMode_t::NoQuant, ErrorKind::kNoPath,
             "L0C -> L1 must cast to 16 bits (quantPre)");
  op.Require(!to_l1 || !row_major, ErrorKind::kNoPath, "L0C -> L1 writes NZ only");
  const Type wanted = p.quantPre == QuantMode_t::F322F16    ? Type::kHalf
                      : p.quantPre == QuantMode_t::F322BF16 ? Type::kBf16
                                                            : Type::kFloat;
  op.Limit(l0c.type == Type::kFloat && to.type == wanted, [&] {
    return std::string("quantPre gives ") + TypeName(wanted) + ", the target is " +
           TypeName(to.type);
  });
  op.Limit(!p.isChannelSplit, "isChannelSplit is not modelled");
  op.Limit(p.nSize >= 16 && p.nSize <= 4095 && p.nSize % 16 == 0, [&] {
    return "nSize " + std::to_string(p.nSize) + " must be a multiple of 16 up to 4095";
  });
  op.Limit(p.mSize >= 1 && p.mSize <= (row_major ? 8192 : 65535), [&] {
    return "mSize " + std::to_string(p.mSize) + " must be 1..8192 (ND) or 1..65535 (NZ)";
  });
  op.Limit(p.srcStride % 16 == 0 && p.srcStride >= p.mSize % 16, [&] {
    return "srcStride " + std::to_string(p.srcStride) + " must be a multiple of 16";
  });
  op.Limit(p.ndNum == 1 || row_major, "ndNum belongs to ND");
  op.Limit(!core->atomic || to_l1 || core->atomic_type == to.type, [&] {
    return std::string("the atomic type is ") + TypeName(core->atomic_type) + ", the target's " +
           TypeName(to.type);
  });
  if (!op.ok()) return;
  op.instr().unit_flag = p.unitFlag;

  const int64_t size = TypeBytes(to.type);
  const int64_t blocks = p.nSize / 16;
  const int64_t source_step = p.srcStride * int64_t{64};
  const int64_t matrices = p.ndNum;
  Strip gm;
  for (int64_t nd = 0; nd < matrices; ++nd) {
    op.Reads(l0c, {nd * p.srcNdStride * 1024, p.mSize * int64_t{64}, source_step, blocks});
    if (row_major) {
      const Strip rows{nd * p.dstNdStride * size, p.nSize * size, p.dstStride * size, p.mSize};
      if (nd == 0) gm = rows;
      op.Writes(to, rows);
    } else {
      gm = {0, p.mSize * 16 * size, p.dstStride * int64_t{32}, blocks};
      op.Writes(to, gm, 32);
    }
  }
  if (!op.ok()) return;
  const int64_t lines =
      row_major ? matrices * p.mSize * RoundUp(p.nSize * size, 32) : blocks * p.mSize * 16 * size;
  op.Cost(to_l1 ? Path::kL0cToL1 : Path::kL0cToGm, lines);
  if (!to_l1) op.Gm(to, gm);

  const uint8_t* source = core->Data(l0c);
  const uint8_t* source_shadow = core->Shadow(l0c);
  uint8_t out[64];
  uint8_t shadow[64];
  for (int64_t nd = 0; nd < matrices; ++nd) {
    for (int64_t nb = 0; nb < blocks; ++nb) {
      for (int64_t m = 0; m < p.mSize; ++m) {
        const int64_t at = nd * p.srcNdStride * 1024 + nb * source_step + m * 64;
        float row[16];
        std::memcpy(row, source + at, 64);
        for (int64_t j = 0; j < 16; ++j) {
          const float value = p.reluEn && row[j] < 0 ? 0.0f : row[j];
          std::memset(shadow + j * size, source_shadow[at + j * 4], static_cast<size_t>(size));
          if (size == 4) {
            std::memcpy(out + j * 4, &value, 4);
          } else {
            const uint16_t bits =
                wanted == Type::kHalf ? FloatToHalfBits(value) : FloatToBf16Bits(value);
            std::memcpy(out + j * 2, &bits, 2);
          }
        }
        const int64_t target = row_major ? (nd * p.dstNdStride + m * p.dstStride + nb * 16) * size
                                         : nb * p.dstStride * 32 + m * 16 * size;
        if (to_l1) {
          std::memcpy(core->Data(to) + target, out, static_cast<size_t>(16 * size));
          std::memcpy(core->Shadow(to) + target, shadow, static_cast<size_t>(16 * size));
        } else {
          core->StoreGm(to, target, out, shadow, 16 * size);
        }
      }
    }
  }
}

}  // namespace lorica::ascend
