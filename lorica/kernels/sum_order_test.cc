// The order of every sum along k (cpu/packing.h): blocks of 256 k, each one chain from zero (a
// shrink: two), added up in order. Computed here again with std::fma, so that a moved border, or a
// pair in the wrong chain, is another number; and what the blocks are for: how near fp64 they stay.
#include <gtest/gtest.h>

#include <cmath>

#include "lorica/kernels/cpu/cpu_backend.h"
#include "lorica/kernels/linear_fixture.h"

namespace lorica::kernels {
namespace {

constexpr int64_t kBlock = 256;

std::vector<const cpu::KernelTable*> TablesWithFma() {
  std::vector<const cpu::KernelTable*> tables;
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (cpu::RunsHere(table) && table.isa != "scalar" && table.isa != "sse4") {
      tables.push_back(&table);
    }
  }
  return tables;
}

float BaseSum(const float* x, const float* w, int64_t k, int64_t block) {
  float total = 0.0f;
  for (int64_t begin = 0; begin < k; begin += block) {
    float chain = 0.0f;
    for (int64_t i = begin; i < std::min(begin + block, k); ++i)
      chain = std::fma(w[i], x[i], chain);
    total += chain;
  }
  return total;
}

float ShrinkSum(const float* x, const float* a, int64_t k) {
  float total = 0.0f;
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    float chain[2] = {};
    for (int64_t i = begin; i < std::min(begin + kBlock, k); ++i) {
      chain[i / 2 % 2] = std::fma(a[i], x[i], chain[i / 2 % 2]);
    }
    total += chain[0] + chain[1];
  }
  return total;
}

// y of one row, slot 0 of one part.
std::vector<float> ByHand(const LinearProblem& problem, const std::vector<float>& x) {
  const int64_t k = problem.k;
  const FactorValues& f = problem.adapters[0][0];
  std::vector<float> s(static_cast<size_t>(f.rank));
  for (int32_t rank = 0; rank < f.rank; ++rank) {
    s[static_cast<size_t>(rank)] =
        ShrinkSum(x.data(), f.a.data() + rank * k, k) * static_cast<float>(f.scale);
  }
  std::vector<float> y;
  for (int64_t n = 0; n < problem.n[0]; ++n) {
    float sum = BaseSum(x.data(), problem.w[0].data() + n * k, k, kBlock);
    for (int32_t rank = 0; rank < f.rank; ++rank) {
      sum =
          std::fma(f.b[static_cast<size_t>(n * f.rank + rank)], s[static_cast<size_t>(rank)], sum);
    }
    y.push_back(sum);
  }
  return y;
}

TEST(SumOrder, EveryTableWithFmaAddsInBlocksOf256) {
  MachineContext context(2);
  for (const int64_t k : {255, 256, 257, 260, 512, 700}) {
    LinearProblem problem = RandomProblem({k, {33}, {8}}, 50);
    problem.bias[0].clear();
    std::mt19937 random(51);
    // Of bf16, so that the dot has the same to multiply.
    const std::vector<float> x = RandomFloats(k, DType::kBF16, 1.0f, &random);
    const std::vector<float> want = ByHand(problem, x);
    for (const cpu::KernelTable* table : TablesWithFma()) {
      problem.activation_type = table->uses_dot ? ActivationType::kBf16 : ActivationType::kF32;
      const cpu::CpuBackend backend(table);
      const PackedProblem packed(problem, backend, &context);
      const auto got = packed.Run(&context.pool, x, {lora::SlotId{0}});
      EXPECT_EQ(got[0], want) << table->name << " K " << k;
    }
  }
}

// A large term met early and taken back at the end, as a model's massive activations do: in one
// chain everything between is rounded to its size. Every set must stay within a third of what one
// chain loses.
TEST(SumOrder, ALargeTermCostsOneBlockAlone) {
  constexpr int64_t kK = 8192;
  constexpr int64_t kN = 64;
  MachineContext context(1);
  LinearProblem problem = RandomProblem({kK, {kN}, {}}, 52);
  problem.bias[0].clear();
  std::mt19937 random(53);
  std::vector<float> x = RandomFloats(kK, DType::kBF16, 1.0f, &random);
  x[3] = 8192.0f;
  x[kK - 2] = -8192.0f;
  for (int64_t n = 0; n < kN; ++n) {
    problem.w[0][static_cast<size_t>(n * kK + 3)] = 1.0f;
    problem.w[0][static_cast<size_t>(n * kK + kK - 2)] = 1.0f;
  }
  std::vector<double> exact;
  double one_chain = 0.0;
  for (int64_t n = 0; n < kN; ++n) {
    const float* w = problem.w[0].data() + n * kK;
    double sum = 0.0;
    for (int64_t i = 0; i < kK; ++i) sum += double{w[i]} * double{x[static_cast<size_t>(i)]};
    exact.push_back(sum);
    one_chain += std::abs(BaseSum(x.data(), w, kK, kK) - sum);
  }
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (!cpu::RunsHere(table)) continue;
    const cpu::CpuBackend backend(&table);
    const PackedProblem packed(problem, backend, &context);
    const auto got = packed.Run(&context.pool, x, {lora::kBaseModel});
    double error = 0.0;
    for (size_t n = 0; n < kN; ++n) error += std::abs(got[0][n] - exact[n]);
    EXPECT_LT(error, one_chain / 3) << table.name;
  }
}

}  // namespace
}  // namespace lorica::kernels
