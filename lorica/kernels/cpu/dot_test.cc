// The bf16 dot against f32 FMA on bf16-rounded x: the same bits over whole outputs. Where the
// processor has no AVX512-BF16 only the last test has something to say.
#include "lorica/kernels/cpu/dot.h"

#include <gtest/gtest.h>

#include "lorica/base/machine.h"
#include "lorica/kernels/cpu/cpu_backend.h"
#include "lorica/kernels/linear_fixture.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::kernels::cpu {
namespace {

const KernelTable& Avx512(bool with_dot) {
  for (const KernelTable& table : AllKernelTables()) {
    if (table.isa == "avx512" && table.uses_dot == with_dot) return table;
  }
  LORICA_CHECK(false);
  std::abort();
}

bool DotIsHere() { return ReadMachineFacts().has_avx512_bf16 && DotEqualsFma(); }

std::vector<lora::SlotId> SomeSlots(int64_t rows, size_t adapters, std::mt19937* random) {
  std::vector<lora::SlotId> slots;
  for (int64_t row = 0; row < rows; ++row) {
    slots.push_back(lora::SlotId{static_cast<int32_t>((*random)() % (adapters + 1)) - 1});
  }
  return slots;
}

// Bytes of y, row by row, for one problem and one x on both paths.
void ExpectSameBits(const LinearProblem& problem, const std::vector<float>& x,
                    const std::vector<lora::SlotId>& slots, MachineContext* context) {
  const CpuBackend fma(&Avx512(false));
  const CpuBackend dot(&Avx512(true));
  const PackedProblem on_fma(problem, fma, context);
  const PackedProblem on_dot(problem, dot, context);
  const auto want = on_fma.Run(&context->pool, x, slots);
  const auto got = on_dot.Run(&context->pool, x, slots);
  for (size_t part = 0; part < want.size(); ++part) {
    int64_t differ = 0;
    for (size_t i = 0; i < want[part].size(); ++i) {
      EXPECT_TRUE(std::isfinite(want[part][i]));
      if (std::memcmp(&want[part][i], &got[part][i], sizeof(float)) != 0) ++differ;
    }
    EXPECT_EQ(differ, 0) << "of " << want[part].size() << ", part " << part << " K " << problem.k
                         << " rows " << slots.size();
  }
}

TEST(Dot, WholeOutputsEqualFma) {
  if (!DotIsHere()) return;
  MachineContext context(2);
  LinearProblem problem = RandomProblem({1024, {512}, {8, 64}}, 40);
  problem.activation_type = ActivationType::kBf16;
  std::mt19937 random(41);
  for (const int64_t rows : {1, 6, 14, 33}) {
    ExpectSameBits(problem, RandomFloats(rows * 1024, DType::kF32, 1.0f, &random),
                   SomeSlots(rows, 2, &random), &context);
  }
}

TEST(Dot, OddShapesAndFactorsOfEveryTypeEqualFma) {
  if (!DotIsHere()) return;
  MachineContext context(3);
  for (const int64_t k : {1, 2, 3, 5, 15, 16, 17, 33, 71, 130}) {
    for (const DType factors : {DType::kBF16, DType::kF16, DType::kF32}) {
      LinearProblem problem =
          RandomProblem({k, {1, 17, 50}, {8, 20, 3}, DType::kBF16, factors}, 42);
      problem.activation_type = ActivationType::kBf16;
      std::mt19937 random(43);
      for (const int64_t rows : {1, 3, 7, 15, 29}) {
        ExpectSameBits(problem, RandomFloats(rows * k, DType::kF32, 1.0f, &random),
                       SomeSlots(rows, 3, &random), &context);
      }
    }
  }
}

// A step that mixes bf16 factors with others reads x in both forms.
TEST(Dot, FactorsOfTwoTypesInOneStepEqualFma) {
  if (!DotIsHere()) return;
  MachineContext context(2);
  LinearProblem problem = RandomProblem({75, {40}, {16, 8}}, 44);
  problem.activation_type = ActivationType::kBf16;
  std::mt19937 random(45);
  FactorValues& f = problem.adapters[1][0];
  f.dtype = DType::kF32;
  f.a = RandomFloats(8 * 75, DType::kF32, 0.2f, &random);
  ExpectSameBits(problem, RandomFloats(12 * 75, DType::kF32, 1.0f, &random),
                 SomeSlots(12, 2, &random), &context);
}

// Denormals, among them one that rounds up to the least normal number, and all exponents.
TEST(Dot, NumbersOfEveryExponentEqualFma) {
  if (!DotIsHere()) return;
  MachineContext context(1);
  LinearProblem problem = RandomProblem({256, {96}, {8}}, 46);
  problem.activation_type = ActivationType::kBf16;
  problem.bias[0].clear();  // would drown small sums
  std::mt19937 random(47);
  for (float& w : problem.w[0]) {
    w = RoundTo(DType::kBF16, std::ldexp(w, static_cast<int>(random() % 80) - 40));
  }
  std::vector<float> x = RandomFloats(9 * 256, DType::kF32, 1.0f, &random);
  for (float& v : x) v = std::ldexp(v, static_cast<int>(random() % 160) - 140);
  for (size_t i = 0; i < 256; ++i) x[i] = 0x1.fffffcp-127f;
  ExpectSameBits(problem, x, SomeSlots(9, 1, &random), &context);
}

// x as F32ToBf16 rounds it, in the layout that the tiles and the shrink read.
TEST(Dot, PacksRoundedPairs) {
  if (!DotIsHere()) return;
  std::mt19937 random(48);
  for (const int64_t k : {1, 7, 16, 31, 50}) {
    std::vector<float> x = RandomFloats(k, DType::kF32, 1.0f, &random);
    x[0] = 0x1.fffffcp-127f;
    if (k > 4) {
      x[1] = std::nanf("");
      x[2] = -std::numeric_limits<float>::infinity();
      x[3] = std::numeric_limits<float>::max();
      x[4] = 0x1.01p0f;  // a tie
    }
    const int64_t pairs = Pairs(k);
    std::vector<uint32_t> tile(static_cast<size_t>(pairs * 3), 7u);
    std::vector<uint32_t> dense(static_cast<size_t>(pairs), 7u);
    std::vector<float> rounded(static_cast<size_t>(k));
    for (const IndexRange& part : {IndexRange{0, pairs / 2}, IndexRange{pairs / 2, pairs}}) {
      DotPackArgs args;
      args.x = x.data();
      args.k = k;
      args.pairs = part;
      args.tile = tile.data() + 1;
      args.tile_rows = 3;
      args.dense = dense.data();
      args.rounded = rounded.data();
      CompiledDotKernels()->pack(args);
    }
    const auto bits = [&](int64_t i) {
      return i < k ? uint32_t{F32ToBf16(x[static_cast<size_t>(i)])} : 0u;
    };
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const uint32_t want = bits(2 * pair) << 16 | bits(2 * pair + 1);
      EXPECT_EQ(tile[static_cast<size_t>(pair * 3 + 1)], want) << k << " " << pair;
      EXPECT_EQ(tile[static_cast<size_t>(pair * 3)], 7u);
      EXPECT_EQ(tile[static_cast<size_t>(pair * 3 + 2)], 7u);
      EXPECT_EQ(dense[static_cast<size_t>(pair)], want);
    }
    for (int64_t i = 0; i < k; ++i) {
      const uint32_t want = bits(i) << 16;
      EXPECT_EQ(std::memcmp(&rounded[static_cast<size_t>(i)], &want, 4), 0) << k << " " << i;
    }
  }
}

TEST(Dot, TheBackendSaysWhetherItUsesIt) {
  if (!ReadMachineFacts().has_avx512) return;
  EXPECT_EQ(OpenCpuBackend("avx512").value()->name(),
            DotIsHere() ? "cpu avx512 bf16" : "cpu avx512");
}

}  // namespace
}  // namespace lorica::kernels::cpu
