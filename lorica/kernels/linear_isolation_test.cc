// A row's result depends on nothing but the row: every entry of the kernel table, any number of
// rows, order, tiling and thread count give the same bits; AVX2 equals AVX-512.
#include <gtest/gtest.h>
// gtest comes first for its bridge.
#include <rapidcheck/gtest.h>

#include <numeric>

#include "lorica/kernels/cpu/cpu_backend.h"
#include "lorica/kernels/linear_fixture.h"
#include "lorica/kernels/quantize.h"

namespace lorica::kernels {
namespace {

using lora::SlotId;

constexpr int64_t kRows = 70;
constexpr DType kEveryType[] = {DType::kBF16, DType::kF16,  DType::kF32,  DType::kI8,  DType::kQ8_0,
                                DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K};
// Of adapters beside weights of a type.
DType FactorsFor(DType weights) { return IsQuantized(weights) ? DType::kBF16 : weights; }

const cpu::KernelTable& TableOf(std::string_view isa) {
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (table.isa == isa) return table;
  }
  LORICA_CHECK(false);
  std::abort();
}

std::vector<const cpu::KernelTable*> TablesHere() {
  std::vector<const cpu::KernelTable*> tables;
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (cpu::RunsHere(table)) tables.push_back(&table);
  }
  return tables;
}

struct World {
  LinearProblem problem;
  std::vector<float> x;
  std::vector<SlotId> slots;

  World(const ProblemShape& shape, ActivationType activation, uint32_t seed)
      : problem(RandomProblem(shape, seed)) {
    problem.activation_type = activation;
    std::mt19937 random(seed + 1);
    x = RandomFloats(kRows * problem.k, DType::kF32, 1.0f, &random);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto slot = static_cast<int32_t>(random() % (shape.ranks.size() + 1));
      slots.push_back(SlotId{slot - 1});
    }
  }

  // Each row alone, one thread: the truth that every mix must repeat.
  std::vector<std::vector<std::vector<float>>> Alone(const Backend& backend,
                                                     MachineContext* context) const {
    const PackedProblem packed(problem, backend, context);
    std::vector<std::vector<std::vector<float>>> rows;
    for (int32_t row = 0; row < kRows; ++row) {
      rows.push_back(packed.Run(&context->pool, TakeRows(x, problem.k, {row}),
                                {slots[static_cast<size_t>(row)]}));
    }
    return rows;
  }
};

struct Mix {
  std::vector<int32_t> rows;  // of the world, in batch order
  cpu::LinearTiling tiling;
  int threads = 1;
};

Mix RandomMix(bool sort_by_slot, const std::vector<SlotId>& slots) {
  Mix mix;
  std::vector<int32_t> all(kRows);
  std::iota(all.begin(), all.end(), 0);
  const auto count = static_cast<size_t>(*rc::gen::inRange<int64_t>(1, kRows + 1));
  std::mt19937 random(static_cast<uint32_t>(*rc::gen::inRange(0, 1 << 30)));
  std::shuffle(all.begin(), all.end(), random);
  mix.rows.assign(all.begin(), all.begin() + static_cast<int64_t>(count));
  if (sort_by_slot) {
    std::stable_sort(mix.rows.begin(), mix.rows.end(), [&](int32_t a, int32_t b) {
      return slots[static_cast<size_t>(a)] < slots[static_cast<size_t>(b)];
    });
  }
  mix.tiling.rows = *rc::gen::inRange(0, 17);
  mix.tiling.panels = *rc::gen::element(0, 1, 2, 4);
  mix.threads = *rc::gen::inRange(1, 4);
  return mix;
}

void CheckWorld(const World& world, const cpu::KernelTable& table,
                const cpu::KernelTable& truth_table) {
  MachineContext one(1);
  ThreadPool two(2);
  ThreadPool three(3);
  ThreadPool* pools[] = {&one.pool, &two, &three};
  const cpu::CpuBackend truth(&truth_table);
  const auto alone = world.Alone(truth, &one);
  EXPECT_TRUE(rc::check("every row equals itself alone", [&] {
    const Mix mix = RandomMix(*rc::gen::arbitrary<bool>(), world.slots);
    std::vector<SlotId> slots;
    for (const int32_t row : mix.rows) slots.push_back(world.slots[static_cast<size_t>(row)]);
    const cpu::CpuBackend backend(&table, mix.tiling);
    const PackedProblem packed(world.problem, backend, &one);
    const auto got =
        packed.Run(pools[mix.threads - 1], TakeRows(world.x, world.problem.k, mix.rows), slots);
    for (size_t part = 0; part < got.size(); ++part) {
      const auto n = static_cast<size_t>(world.problem.n[part]);
      for (size_t i = 0; i < mix.rows.size(); ++i) {
        const auto& want = alone[static_cast<size_t>(mix.rows[i])][part];
        RC_ASSERT(std::memcmp(want.data(), got[part].data() + i * n, n * sizeof(float)) == 0);
      }
    }
  }));
}

TEST(BitEqualAcrossM, EveryTableEveryType) {
  for (const cpu::KernelTable* table : TablesHere()) {
    const ActivationType activation =
        table->uses_dot ? ActivationType::kBf16 : ActivationType::kF32;
    for (const DType dtype : kEveryType) {
      const World world({71, {50, 19}, {8, 20, 1}, dtype, FactorsFor(dtype)}, activation, 30);
      CheckWorld(world, *table, *table);
    }
  }
}

// Every set with FMA, and the dot, give the bits of AVX2.
TEST(BitEqualAcrossM, Avx512AndTheDotEqualAvx2) {
  for (const cpu::KernelTable* table : TablesHere()) {
    if (table->isa != "avx512") continue;
    for (const ActivationType activation : {ActivationType::kF32, ActivationType::kBf16}) {
      for (const DType dtype : kEveryType) {
        const World world({258, {96, 33, 40}, {16, 24}, dtype, FactorsFor(dtype)}, activation, 31);
        CheckWorld(world, *table, TableOf("avx2"));
      }
    }
  }
}

// Integer sums are exact and what follows them knows no FMA: quantised products are the same on
// every set.
TEST(BitEqualAcrossM, QuantisedProductsAreTheSameOnEverySet) {
  for (const cpu::KernelTable* table : TablesHere()) {
    for (const DType dtype :
         {DType::kI8, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K}) {
      const World world({197, {40, 18}, {}, dtype}, ActivationType::kF32, 33);
      CheckWorld(world, *table, TableOf("scalar"));
    }
  }
}

// A tenant whose weights overflow, or are NaN, leaves the bits of every other row alone.
TEST(Isolation, NonFiniteTenantsAreAlone) {
  MachineContext context(2);
  for (const cpu::KernelTable* table : TablesHere()) {
    World world({64, {48}, {8, 16, 8}},
                table->uses_dot ? ActivationType::kBf16 : ActivationType::kF32, 32);
    const cpu::CpuBackend backend(table);
    const PackedProblem clean(world.problem, backend, &context);
    const auto want = clean.Run(&context.pool, world.x, world.slots);
    LinearProblem broken = world.problem;
    for (float& v : broken.adapters[1][0].a) v = 1e38f;
    for (float& v : broken.adapters[1][0].b) v = -1e38f;
    for (float& v : broken.adapters[2][0].b) v = std::nanf("");
    const PackedProblem dirty(broken, backend, &context);
    const auto got = dirty.Run(&context.pool, world.x, world.slots);
    int finite_rows = 0;
    for (size_t row = 0; row < kRows; ++row) {
      if (world.slots[row].index >= 1) {
        EXPECT_FALSE(std::isfinite(got[0][row * 48]));
        continue;
      }
      ++finite_rows;
      EXPECT_EQ(std::memcmp(&want[0][row * 48], &got[0][row * 48], 48 * sizeof(float)), 0);
    }
    EXPECT_GT(finite_rows, 10);
  }
}

}  // namespace
}  // namespace lorica::kernels
