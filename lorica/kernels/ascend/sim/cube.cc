// The cube's calls of core_api.h: LoadData and Mmad.
#include <algorithm>
#include <cstring>
#include <vector>

#include "lorica/kernels/ascend/sim/op.h"

namespace lorica::ascend {
namespace {

// Four floats; both compilers lower it to one register at any optimisation level.
typedef float Vec4 __attribute__((vector_size(16)));

Vec4 Load4(const float* from) {
  Vec4 value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
void Store4(float* to, Vec4 value) { std::memcpy(to, &value, sizeof(value)); }

// 16 columns of one row of C, along k in order.
void RowTimesPanel(const float* a, const float* panel, int64_t k, float* c) {
  Vec4 sum[4] = {Load4(c), Load4(c + 4), Load4(c + 8), Load4(c + 12)};
  for (int64_t i = 0; i < k; ++i) {
    const Vec4 value = {a[i], a[i], a[i], a[i]};
    const float* row = panel + i * 16;
    for (int j = 0; j < 4; ++j) sum[j] += value * Load4(row + 4 * j);
  }
  for (int j = 0; j < 4; ++j) Store4(c + 4 * j, sum[j]);
}
void TwoRowsTimesPanel(const float* a, const float* b, const float* panel, int64_t k, float* c) {
  Vec4 first[4] = {Load4(c), Load4(c + 4), Load4(c + 8), Load4(c + 12)};
  Vec4 second[4] = {Load4(c + 16), Load4(c + 20), Load4(c + 24), Load4(c + 28)};
  for (int64_t i = 0; i < k; ++i) {
    const Vec4 x = {a[i], a[i], a[i], a[i]};
    const Vec4 y = {b[i], b[i], b[i], b[i]};
    const float* row = panel + i * 16;
    for (int j = 0; j < 4; ++j) {
      const Vec4 column = Load4(row + 4 * j);
      first[j] += x * column;
      second[j] += y * column;
    }
  }
  for (int j = 0; j < 4; ++j) {
    Store4(c + 4 * j, first[j]);
    Store4(c + 16 + 4 * j, second[j]);
  }
}

float ElementAt(Type type, const uint8_t* at) {
  if (type == Type::kFloat) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return type == Type::kHalf ? HalfBitsToFloat(bits) : Bf16BitsToFloat(bits);
}

bool AnyShadow(const uint8_t* shadow, int64_t bytes) {
  return std::memchr(shadow, 1, static_cast<size_t>(bytes)) != nullptr;
}

struct MmadShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t m_blocks = 0, n_blocks = 0, k_blocks = 0;
  int64_t k0 = 16;
  int64_t size = 2;
  bool gemv = false;
  // Byte of A[i][kk] in L0A and of B[kk][j] in L0B.
  int64_t A(int64_t i, int64_t kk) const {
    if (gemv) return kk * size;
    return ((i / 16 * k_blocks + kk / k0) * 512) + (i % 16) * 32 + kk % k0 * size;
  }
  int64_t B(int64_t kk, int64_t j) const {
    return ((kk / k0 * n_blocks + j / 16) * 512) + (j % 16) * 32 + kk % k0 * size;
  }
};

// A as [m][k] and B as [n_blocks][k][16] floats.
void UnpackA(const MmadShape& s, Type type, const uint8_t* data, std::vector<float>* out) {
  out->resize(static_cast<size_t>(s.m * s.k));
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t kk = 0; kk < s.k; ++kk) {
      (*out)[static_cast<size_t>(i * s.k + kk)] = ElementAt(type, data + s.A(i, kk));
    }
  }
}
void UnpackB(const MmadShape& s, Type type, const uint8_t* data, std::vector<float>* out) {
  out->assign(static_cast<size_t>(s.n_blocks * s.k * 16), 0.0f);
  const float* half_table = HalfTable();
  for (int64_t nb = 0; nb < s.n_blocks; ++nb) {
    const int64_t columns = std::min<int64_t>(16, s.n - nb * 16);
    for (int64_t kb = 0; kb < s.k_blocks; ++kb) {
      const uint8_t* fractal = data + (kb * s.n_blocks + nb) * 512;
      const int64_t depth = std::min(s.k0, s.k - kb * s.k0);
      float* panel = out->data() + (nb * s.k + kb * s.k0) * 16;
      for (int64_t j = 0; j < columns; ++j) {
        if (type == Type::kFloat) {
          for (int64_t d = 0; d < depth; ++d) {
            std::memcpy(panel + d * 16 + j, fractal + j * 32 + d * 4, 4);
          }
          continue;
        }
        uint16_t row[16];
        std::memcpy(row, fractal + j * 32, 32);
        for (int64_t d = 0; d < depth; ++d) {
          panel[d * 16 + j] = type == Type::kHalf ? half_table[row[d]] : Bf16BitsToFloat(row[d]);
        }
      }
    }
  }
}

// Uninitialised rows of A make rows of C, columns of B columns of C. C's padding stays as it was,
// or unwritten when C starts anew.
void SpreadShadow(const MmadShape& s, const uint8_t* a, const uint8_t* b, bool fresh,
                  const uint8_t* bias, uint8_t* c) {
  std::vector<uint8_t> rows(static_cast<size_t>(s.m), 0);
  std::vector<uint8_t> columns(static_cast<size_t>(s.n), 0);
  const int64_t a_bytes = s.gemv ? s.k * s.size : s.m_blocks * s.k_blocks * 512;
  if (AnyShadow(a, a_bytes)) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t kk = 0; kk < s.k; ++kk) rows[static_cast<size_t>(i)] |= a[s.A(i, kk)];
    }
  }
  if (AnyShadow(b, s.k_blocks * s.n_blocks * 512)) {
    for (int64_t j = 0; j < s.n; ++j) {
      for (int64_t kk = 0; kk < s.k; ++kk) columns[static_cast<size_t>(j)] |= b[s.B(kk, j)];
    }
  }
  if (bias != nullptr) {
    for (int64_t j = 0; j < s.n; ++j) columns[static_cast<size_t>(j)] |= bias[j * 4];
  }
  if (fresh) std::memset(c, 1, static_cast<size_t>(s.m_blocks * s.n_blocks * 1024));
  for (int64_t j = 0; j < s.n; ++j) {
    for (int64_t i = 0; i < s.m; ++i) {
      uint8_t* at = c + ((j / 16 * s.m_blocks * 16 + i) * 16 + j % 16) * 4;
      const uint8_t added = rows[static_cast<size_t>(i)] | columns[static_cast<size_t>(j)];
      const uint8_t value = fresh ? added : added | at[0];
      std::memset(at, value, 4);
    }
  }
}

}  // namespace

void Load2d(const View& to, const View& from, const AscendC::LoadData2DParams& p, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  const bool from_gm = from.space == Space::kGm;
  Op op(core, from_gm ? PIPE_MTE2 : PIPE_MTE1, "LoadData", line);
  const bool to_l0 = to.space == Space::kL0A || to.space == Space::kL0B;
  op.Require((to_l0 && from.space == Space::kL1) || (from_gm && (to_l0 || to.space == Space::kL1)),
             ErrorKind::kNoPath, [&] {
               return std::string("LoadData has no path ") + SpaceName(from.space) + " -> " +
                      SpaceName(to.space);
             });
  op.Limit(p.repeatTimes >= 1, "repeatTimes 0");
  op.Limit(!p.ifTranspose || (TypeBytes(from.type) == 2 && !from_gm),
           "only 16-bit fractals from L1 are transposed");
  if (!op.ok()) return;
  const int64_t source_step = p.srcStride * int64_t{512};
  const int64_t target_step = (1 + int64_t{p.dstGap}) * 512;
  const int64_t begin = p.startIndex * int64_t{512};
  const int64_t repeat = p.repeatTimes;
  const auto strip = [repeat](int64_t at, int64_t step) {
    return step == 512 ? Strip{at, repeat * 512, 0, 1} : Strip{at, 512, step, repeat};
  };
  op.Reads(from, strip(begin, source_step));
  op.Writes(to, strip(0, target_step));
  if (!op.ok()) return;
  op.Cost(from_gm                   ? Path::kGmToL1
          : to.space == Space::kL0A ? Path::kL1ToL0A
                                    : Path::kL1ToL0B,
          repeat * 512);
  if (from_gm) op.Gm(from, strip(begin, source_step));
  for (int64_t i = 0; i < repeat; ++i) {
    const int64_t source_at = begin + i * source_step;
    if (!p.ifTranspose) {
      core->Move(to, i * target_step, from, source_at, 512);
      continue;
    }
    for (int plane = 0; plane < 2; ++plane) {
      const uint8_t* source = (plane == 0 ? core->Data(from) : core->Shadow(from)) + source_at;
      uint8_t* target = (plane == 0 ? core->Data(to) : core->Shadow(to)) + i * target_step;
      for (int64_t r = 0; r < 16; ++r) {
        for (int64_t c = 0; c < 16; ++c) {
          std::memcpy(target + (c * 16 + r) * 2, source + (r * 16 + c) * 2, 2);
        }
      }
    }
  }
}

void MmadOp(const View& c, const View& a, const View& b, const View* bias,
            const AscendC::MmadParams& p, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_M, "Mmad", line);
  const bool bf16 = a.type == Type::kBf16;
  op.Require(c.space == Space::kL0C && a.space == Space::kL0A && b.space == Space::kL0B,
             ErrorKind::kNoPath, "Mmad takes L0C, L0A and L0B");
  op.Require(c.type == Type::kFloat && a.type == b.type &&
                 (a.type == Type::kHalf || a.type == Type::kFloat || bf16),
             ErrorKind::kNoPath, [&] {
               return std::string("Mmad of ") + TypeName(a.type) + " and " + TypeName(b.type) +
                      " into " + TypeName(c.type) + " is not modelled";
             });
  op.Require(a.type == Type::kHalf || core->soc->arch != 2002, ErrorKind::kNoPath,
             "arch 2002 multiplies half only");
  op.Limit(p.m <= 4095 && p.n <= 4095 && p.k <= 4095, [&] {
    return "m " + std::to_string(p.m) + ", n " + std::to_string(p.n) + ", k " +
           std::to_string(p.k) + " must be at most 4095";
  });
  op.Limit(bias == nullptr || bias->space == Space::kBt, "the bias lies in the bias table");
  op.Limit(p.cmatrixInitVal || !p.cmatrixSource || bias != nullptr,
           "cmatrixSource true needs a bias");
  if (!op.ok() || p.m == 0 || p.n == 0 || p.k == 0) return;

  MmadShape s;
  s.m = p.m;
  s.n = p.n;
  s.k = p.k;
  s.size = TypeBytes(a.type);
  s.k0 = 32 / s.size;
  s.m_blocks = CeilDiv(s.m, 16);
  s.n_blocks = CeilDiv(s.n, 16);
  s.k_blocks = CeilDiv(s.k, s.k0);
  s.gemv = p.m == 1;
  if (s.gemv) ++core->report->gemv_mmads;
  op.instr().unit_flag = p.unitFlag;
  op.instr().small_mmad = s.m_blocks * s.n_blocks < 10;
  const bool from_bias = bias != nullptr && (p.cmatrixSource || p.cmatrixInitVal);
  const bool fresh = p.cmatrixInitVal || from_bias;
  const Strip c_strip{0, s.m_blocks * s.n_blocks * 1024, 0, 1};
  op.Reads(a, {0, s.gemv ? RoundUp(s.k * s.size, 512) : s.m_blocks * s.k_blocks * 512, 0, 1});
  op.Reads(b, {0, s.k_blocks * s.n_blocks * 512, 0, 1});
  if (from_bias) op.Reads(*bias, {0, s.n * 4, 0, 1});
  if (!fresh) op.Reads(c, c_strip, 1024);
  op.Writes(c, c_strip, 1024);
  if (!op.ok()) return;
  const int64_t row_blocks = std::max(s.m_blocks, core->least_row_blocks);
  op.Cost(Path::kNone, 0,
          core->soc->mmad_head +
              static_cast<double>(row_blocks * s.n_blocks * s.k_blocks) * (s.size == 4 ? 2 : 1));

  thread_local std::vector<float> a_floats, b_floats;
  UnpackA(s, a.type, core->Data(a), &a_floats);
  UnpackB(s, b.type, core->Data(b), &b_floats);
  const uint8_t* bias_shadow = from_bias ? core->Shadow(*bias) : nullptr;
  SpreadShadow(s, core->Shadow(a), core->Shadow(b), fresh, bias_shadow, core->Shadow(c));
  uint8_t* out = core->Data(c);
  float tile[32];
  for (int64_t nb = 0; nb < s.n_blocks; ++nb) {
    const float* panel = b_floats.data() + nb * s.k * 16;
    const size_t columns = static_cast<size_t>(std::min<int64_t>(16, s.n - nb * 16));
    for (int64_t i = 0; i < s.m; i += 2) {
      const int64_t rows = std::min<int64_t>(2, s.m - i);
      uint8_t* at = out + (nb * s.m_blocks * 16 + i) * 64;
      std::memcpy(tile, at, static_cast<size_t>(rows) * 64);
      for (int64_t r = 0; fresh && r < rows; ++r) {
        std::memset(tile + r * 16, 0, columns * 4);
        if (from_bias) std::memcpy(tile + r * 16, core->Data(*bias) + nb * 64, columns * 4);
      }
      const float* row = a_floats.data() + i * s.k;
      if (rows == 2) {
        TwoRowsTimesPanel(row, row + s.k, panel, s.k, tile);
      } else {
        RowTimesPanel(row, panel, s.k, tile);
      }
      for (int64_t r = 0; r < rows; ++r) std::memcpy(at + r * 64, tile + r * 16, columns * 4);
    }
  }
}

}  // namespace lorica::ascend
