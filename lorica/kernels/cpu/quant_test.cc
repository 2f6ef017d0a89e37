// The kernels on quantised weights, one by one, against sums of integers written out.
#include "lorica/kernels/cpu/quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "lorica/base/machine.h"
#include "lorica/base/machine_context.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/kernels/cpu/quant_packing.h"
#include "lorica/kernels/linear_fixture.h"
#include "lorica/kernels/quantize_super.h"

namespace lorica::kernels::cpu {
namespace {

constexpr DType kStorages[] = {DType::kI8,   DType::kQ8_0, DType::kQ4_0,
                               DType::kQ4_1, DType::kQ4_K, DType::kQ6_K};

std::vector<const QuantKernels*> KernelsHere() {
  std::vector<const QuantKernels*> out = {ScalarQuantKernels()};
  const MachineFacts facts = ReadMachineFacts();
  if (Sse4QuantKernels() != nullptr) out.push_back(Sse4QuantKernels());
  if (facts.has_avx2_fma && facts.has_f16c) out.push_back(Avx2QuantKernels());
  if (facts.has_avx512_vnni) out.push_back(VnniQuantKernels());
  return out;
}

// Rows of x packed as one tile, in buffers of exactly their size so that the address sanitizer sees
// a step over.
struct PackedX {
  std::vector<int32_t> quads, offsets, half_offsets;
  std::vector<float> scales, sums;

  PackedX(const QuantKernels& kernels, const std::vector<float>& x, int64_t rows, int64_t k) {
    const int64_t blocks = QuantBlocks(k);
    quads.resize(static_cast<size_t>(rows * blocks * kBlockQuads));
    offsets.resize(static_cast<size_t>(rows * blocks));
    half_offsets.resize(2 * offsets.size());
    scales.resize(offsets.size());
    sums.resize(offsets.size());
    for (int64_t row = 0; row < rows; ++row) {
      const std::vector<float> exact(x.begin() + row * k, x.begin() + (row + 1) * k);
      QuantPackArgs args;
      args.x = exact.data();
      args.k = k;
      args.blocks = {0, blocks};
      args.rows = rows;
      args.quads = quads.data() + row;
      args.offsets = offsets.data() + row;
      args.half_offsets = half_offsets.data() + row;
      args.scales = scales.data() + row;
      args.sums = sums.data() + row;
      kernels.pack(args);
    }
  }
};

std::vector<float> Multiply(const QuantKernels& kernels, const Weight& weight, const PackedX& x,
                            int rows, int panels) {
  const DType storage = LayoutDType(weight.layout);
  std::vector<float> acc(static_cast<size_t>(rows * panels * kPanelColumns), std::nanf(""));
  const std::byte* line = weight.data.data();
  QuantTileArgs args;
  args.x = x.quads.data();
  args.offsets = x.offsets.data();
  args.half_offsets = x.half_offsets.data();
  args.x_scale = x.scales.data();
  args.x_sum = x.sums.data();
  args.w = weight.data.data();
  args.panel_bytes = QuantPanelBytes(storage, weight.k);
  args.scales = weight.scales.data();
  args.scale_bytes = QuantScaleBytes(storage, weight.k);
  args.blocks = QuantBlocks(weight.k);
  args.acc = acc.data();
  args.prefetch = &line;
  args.prefetch_last = &line;
  kernels.tile(storage, rows, panels)(args);
  return acc;
}

int32_t Q(const PackedX& x, int64_t rows, int64_t row, int64_t k) {
  const auto quad = static_cast<size_t>(k / 4 * rows + row);
  int8_t bytes[4];
  std::memcpy(bytes, &x.quads[quad], sizeof(bytes));
  return bytes[k % 4];
}

// What multiplies x's scale of a block of K types: integers up to the super-block's scale.
float SuperPart(DType storage, const QuantRow& w, const PackedX& x, int64_t rows, int64_t row,
                int64_t block) {
  int64_t sum = 0;
  for (int64_t i = block * kQuantBlock; i < (block + 1) * kQuantBlock; ++i) {
    const int64_t q = w.q[static_cast<size_t>(i)] - QuantZero(storage);
    const int64_t small = storage == DType::kQ6_K ? w.sub_d[static_cast<size_t>(i / 16)] : 1;
    sum += q * small * Q(x, rows, row, i);
  }
  float d = w.d[static_cast<size_t>(block / 8)];
  if (storage == DType::kQ4_K) d *= static_cast<float>(w.sub_d[static_cast<size_t>(block)]);
  return static_cast<float>(sum) * d;
}

// The definition: integers summed in 64 bits, then scales, block by block.
float Oracle(DType storage, const QuantRow& w, const PackedX& x, int64_t rows, int64_t row,
             int64_t k) {
  float total = 0.0f;
  for (int64_t b = 0; b < QuantBlocks(k); ++b) {
    int64_t sum = 0;
    int64_t x_sum = 0;
    for (int64_t i = b * kQuantBlock; i < (b + 1) * kQuantBlock; ++i) {
      const int32_t q = w.q[static_cast<size_t>(i)];
      sum += int64_t{q - QuantZero(storage)} * Q(x, rows, row, i);
      x_sum += Q(x, rows, row, i);
    }
    const auto at = static_cast<size_t>(b * rows + row);
    auto part = static_cast<float>(sum);
    if (IsSuperBlocked(storage)) {
      part = SuperPart(storage, w, x, rows, row, b);
    } else if (storage != DType::kI8) {
      part = part * w.d[static_cast<size_t>(b)];
    }
    total = total + part * x.scales[at];
    if (!w.m.empty()) {
      const float m = storage == DType::kQ4_1
                          ? w.m[static_cast<size_t>(b)]
                          : w.m[static_cast<size_t>(b / 8)] *
                                static_cast<float>(w.sub_m[static_cast<size_t>(b)]);
      total = total + m * (x.scales[at] * static_cast<float>(x_sum));
    }
  }
  return storage == DType::kI8 ? total * w.d[0] : total;
}

struct Case {
  int64_t k = 0;
  int64_t n = 0;
  std::vector<float> w;  // [n, k]
  std::vector<float> x;  // [kQuantTileRows, k]
};

// Every kernel, storage and tile gives the oracle's bits.
void ExpectOracle(const Case& c) {
  MachineContext context(1);
  const VectorRows source(&c.w, c.n, c.k);
  for (const DType storage : kStorages) {
    const Weight weight = PackQuantPanels(source, storage, &context).value();
    std::vector<QuantRow> rows_of_w(static_cast<size_t>(c.n));
    std::vector<float> scratch(static_cast<size_t>(c.k));
    for (int64_t n = 0; n < c.n; ++n) {
      ReadQuantRow(source, n, storage, scratch, &rows_of_w[static_cast<size_t>(n)]);
    }
    for (const QuantKernels* kernels : KernelsHere()) {
      int tiles = 0;
      for (int rows = 1; rows <= kQuantTileRows; ++rows) {
        const PackedX x(*kernels, c.x, rows, c.k);
        for (const int panels : {1, 2, 4}) {
          if (panels * kPanelColumns > (c.n + 15) / 16 * 16) continue;
          if (kernels->tile(storage, rows, panels) == nullptr) continue;
          ++tiles;
          const std::vector<float> got = Multiply(*kernels, weight, x, rows, panels);
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t n = 0; n < std::min<int64_t>(c.n, panels * kPanelColumns); ++n) {
              const float want =
                  Oracle(storage, rows_of_w[static_cast<size_t>(n)], x, rows, row, c.k);
              const float have = got[static_cast<size_t>(row * panels * kPanelColumns + n)];
              ASSERT_EQ(std::memcmp(&want, &have, sizeof(want)), 0)
                  << kernels->name << " " << DTypeName(storage) << " rows " << rows << " panels "
                  << panels << " row " << row << " column " << n << ": " << have << ", not "
                  << want;
            }
          }
        }
      }
      EXPECT_GT(tiles, 1);
    }
  }
}

Case RandomCase(int64_t k, int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  return {k, n, RandomFloats(n * k, DType::kF32, 0.1f, &random),
          RandomFloats(kQuantTileRows * k, DType::kF32, 1.0f, &random)};
}

TEST(QuantKernels, IntegerSumsAreExactAtOddShapes) {
  ExpectOracle(RandomCase(1, 1, 1));
  ExpectOracle(RandomCase(31, 16, 2));
  ExpectOracle(RandomCase(33, 17, 3));
  ExpectOracle(RandomCase(101, 64, 4));
  ExpectOracle(RandomCase(576, 33, 5));
}

// Nothing saturates: every product of a sum at its greatest, of one sign, then of both.
TEST(QuantKernels, ExtremesDoNotSaturate) {
  for (const float sign : {1.0f, -1.0f}) {
    Case c{256, 64, std::vector<float>(64 * 256, 1.0f),
           std::vector<float>(kQuantTileRows * 256, sign)};
    ExpectOracle(c);
    for (size_t i = 0; i < c.w.size(); ++i) c.w[i] = i / 256 % 2 == 0 ? 1.0f : -1.0f;
    ExpectOracle(c);
    // A minimum of -1 and a maximum of 1 give nibbles of 15 beside one of 0.
    for (size_t i = 0; i < c.w.size(); i += kQuantBlock) c.w[i] = -c.w[i];
    ExpectOracle(c);
  }
}

// A file's own blocks, whatever their scales, -128 and nibbles of every value included.
class BlockRows : public RowSource {
 public:
  BlockRows(DType storage, int64_t n, int64_t k, uint32_t seed)
      : storage_(storage), n_(n), k_(k), bytes_(static_cast<size_t>(n * RowBytes())) {
    std::mt19937 random(seed);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
    for (int64_t at = 0; at < n * RowBytes(); at += BlockBytes(storage)) {
      const int64_t first = storage == DType::kQ6_K ? 208 : 0;
      for (int64_t i = 0; i < (HasMinimum(storage) ? 2 : 1); ++i) {
        const uint16_t half = F32ToF16(0.01f * static_cast<float>(random() % 200) - 1.0f);
        std::memcpy(&bytes_[static_cast<size_t>(at + first + 2 * i)], &half, sizeof(half));
      }
      if (storage == DType::kQ8_0) bytes_[static_cast<size_t>(at + 2)] = std::byte{0x80};
    }
  }
  // Integers all zeros or all ones: bit 0 says which of q, bit 1 of Q6_K's scales, -128 or 127.
  void FillWithExtremes(unsigned bits) {
    for (int64_t at = 0; at < n_ * RowBytes(); at += BlockBytes(storage_)) {
      std::byte* block = &bytes_[static_cast<size_t>(at)];
      const bool six = storage_ == DType::kQ6_K;
      std::fill_n(block + (six ? 0 : 16), six ? 192 : 128, std::byte(bits % 2 == 0 ? 0 : 255));
      if (six) {
        std::fill_n(block + 192, 16, std::byte(bits / 2 == 0 ? 0x80 : 0x7f));
      } else {
        std::fill_n(block + 4, 12, std::byte(bits / 2 == 0 ? 0 : 255));
      }
    }
  }

  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  void ReadRow(int64_t n, std::span<float> row) const override {
    lorica::DequantizeRow(storage_, StoredRow(n), k_, row.data());
  }
  DType stored() const override { return storage_; }
  const std::byte* StoredRow(int64_t n) const override { return bytes_.data() + n * RowBytes(); }

 private:
  int64_t RowBytes() const { return ElementsToBytes(storage_, k_); }

  DType storage_;
  int64_t n_;
  int64_t k_;
  std::vector<std::byte> bytes_;
};

TEST(QuantKernels, BlocksOfAFileAreKeptAsTheyAre) {
  MachineContext context(1);
  for (const DType storage : kStorages) {
    if (storage == DType::kI8) continue;
    const int64_t k = IsSuperBlocked(storage) ? 512 : 96;
    const BlockRows source(storage, 35, k, 6);
    const Weight weight = PackQuantPanels(source, storage, &context).value();
    std::vector<float> want(static_cast<size_t>(k)), got(want.size());
    for (int64_t n = 0; n < 35; ++n) {
      source.ReadRow(n, want);
      UnpackQuantRow(weight, n, got);
      EXPECT_EQ(want, got) << DTypeName(storage) << " row " << n;
    }
    // -128 is a byte like another; nibbles of 15 and small scales of every sign are too.
    std::mt19937 random(7);
    const std::vector<float> x = RandomFloats(k, DType::kF32, 1.0f, &random);
    std::vector<float> first;
    for (const QuantKernels* kernels : KernelsHere()) {
      const PackedX packed(*kernels, x, 1, k);
      const std::vector<float> y = Multiply(*kernels, weight, packed, 1, 1);
      if (first.empty()) first = y;
      EXPECT_EQ(first, y) << kernels->name;
      QuantRow row;
      ReadQuantRow(source, 3, storage, got, &row);
      EXPECT_EQ(y[3], Oracle(storage, row, packed, 1, 0, k)) << kernels->name;
    }
  }
}

// Six bits at their greatest: every weight -32 or 31, every small scale -128 or 127, every x at
// 127, so that a block's sum is the greatest there is, and exact.
TEST(QuantKernels, SuperBlocksAtTheirExtremesAreExact) {
  MachineContext context(1);
  for (const DType storage : {DType::kQ4_K, DType::kQ6_K}) {
    for (const unsigned seed : {0u, 1u, 2u, 3u}) {
      BlockRows source(storage, 16, 512, 10);
      source.FillWithExtremes(seed);
      const Weight weight = PackQuantPanels(source, storage, &context).value();
      QuantRow row;
      std::vector<float> scratch(512);
      for (const float sign : {1.0f, -1.0f}) {
        for (const QuantKernels* kernels : KernelsHere()) {
          const PackedX x(*kernels, std::vector<float>(512, sign), 1, 512);
          const std::vector<float> y = Multiply(*kernels, weight, x, 1, 1);
          for (int64_t n = 0; n < 16; ++n) {
            ReadQuantRow(source, n, storage, scratch, &row);
            EXPECT_EQ(y[static_cast<size_t>(n)], Oracle(storage, row, x, 1, 0, 512))
                << kernels->name << " " << DTypeName(storage);
          }
        }
      }
    }
  }
}

TEST(QuantKernels, RowsThatAreZeroOrNotFiniteSaySo) {
  MachineContext context(1);
  const Case c = RandomCase(64, 16, 8);
  const Weight weight = PackQuantPanels(VectorRows(&c.w, 16, 64), DType::kI8, &context).value();
  for (const QuantKernels* kernels : KernelsHere()) {
    std::vector<float> x(64, 0.0f);
    for (const float y : Multiply(*kernels, weight, PackedX(*kernels, x, 1, 64), 1, 1)) {
      EXPECT_EQ(y, 0.0f);
    }
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {std::nanf(""), infinity, -infinity}) {
      x[40] = bad;
      for (const float y : Multiply(*kernels, weight, PackedX(*kernels, x, 1, 64), 1, 1)) {
        EXPECT_TRUE(std::isnan(y)) << kernels->name;
      }
    }
  }
}

TEST(Quantize, KeepsWithinHalfAStep) {
  std::mt19937 random(9);
  const std::vector<float> row = RandomFloats(100, DType::kF32, 1.0f, &random);
  for (const DType storage : kStorages) {
    QuantRow quant;
    QuantizeRow(storage, row, &quant);
    std::vector<float> back(row.size());
    kernels::DequantizeRow(storage, quant, back);
    for (size_t k = 0; k < row.size(); ++k) {
      const float d = IsSuperBlocked(storage)
                          ? SubScaleAt(storage, quant, k).d
                          : quant.d[storage == DType::kI8 ? 0 : k / kQuantBlock];
      // Q4_0's scale reaches 7 steps one way and 8 the other; f16 rounds the scales themselves.
      const float steps = storage == DType::kQ4_0 ? 1.02f : 0.52f;
      EXPECT_LE(std::fabs(back[k] - row[k]), steps * std::fabs(d)) << DTypeName(storage);
    }
  }
}

}  // namespace
}  // namespace lorica::kernels::cpu
