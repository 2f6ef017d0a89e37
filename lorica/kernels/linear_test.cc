// LoraLinear of every instruction set against the reference in double, and the article's cases.
#include <gtest/gtest.h>

#include <numeric>

#include "lorica/kernels/linear_fixture.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::kernels {
namespace {

using lora::kBaseModel;
using lora::SlotId;

std::vector<SlotId> Slots(const std::vector<int32_t>& ids) {
  std::vector<SlotId> out;
  for (const int32_t id : ids) out.push_back(SlotId{id});
  return out;
}

// Greatest error over the greatest value.
double RelativeError(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0.0;
  double scale = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i])) return 1e30;
    error = std::max(error, std::abs(double{got[i]} - double{want[i]}));
    scale = std::max(scale, std::abs(double{want[i]}));
  }
  return error / scale;
}

class LinearTest : public testing::Test {
 protected:
  LinearTest() : reference_(OpenReferenceBackend(Sums::kF64)) {
    for (const std::string_view isa : RunnableIsas()) {
      backends_.push_back(OpenCpuBackend(isa).value());
    }
  }

  // Every backend against the double reference; 1e-5 is the bound for f32 sums.
  void ExpectAllMatch(const LinearProblem& problem, const std::vector<SlotId>& slots,
                      uint32_t seed) {
    std::mt19937 random(seed);
    const std::vector<float> x =
        RandomFloats(static_cast<int64_t>(slots.size()) * problem.k, DType::kF32, 1.0f, &random);
    const PackedProblem expected(problem, *reference_, &context_);
    const auto want = expected.Run(&context_.pool, x, slots);
    for (const auto& backend : backends_) {
      const PackedProblem packed(problem, *backend, &context_);
      const auto got = packed.Run(&context_.pool, x, slots);
      for (size_t part = 0; part < want.size(); ++part) {
        EXPECT_LE(RelativeError(got[part], want[part]), 1e-5)
            << backend->name() << " part " << part << " K " << problem.k << " N "
            << problem.n[part];
      }
    }
  }

  MachineContext context_{2};
  std::unique_ptr<Backend> reference_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

TEST_F(LinearTest, OddShapesInEveryType) {
  for (const DType weights : {DType::kBF16, DType::kF16, DType::kF32, DType::kI8, DType::kQ8_0,
                              DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K}) {
    for (const DType factors : {DType::kBF16, DType::kF16, DType::kF32}) {
      LinearProblem problem = RandomProblem({75, {50, 16, 1}, {8, 20, 3}, weights, factors}, 1);
      ExpectAllMatch(problem, Slots({0, 1, 1, 2, -1, 0, 2, 2, 2, 2, 2, 2}), 2);
      problem.activation_type = ActivationType::kBf16;
      problem.add_to_output = true;
      ExpectAllMatch(problem, Slots({1, -1, 0}), 3);
      ExpectAllMatch(problem, Slots({2}), 4);
    }
  }
}

TEST_F(LinearTest, GateAndUpEndInTheBitsOfSwiGlu) {
  backends_.push_back(OpenReferenceBackend(Sums::kF32));
  for (const auto& backend : backends_) {
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      for (const size_t rows : {1, 7, 40}) {
        LinearProblem problem = RandomProblem({75, {150, 150}, {8}}, 31);
        std::mt19937 random(32);
        const std::vector<float> x =
            RandomFloats(static_cast<int64_t>(rows) * problem.k, DType::kF32, 1.0f, &random);
        std::vector<SlotId> slots(rows, kBaseModel);
        slots.back() = SlotId{0};
        const PackedProblem packed(problem, *backend, &context_);
        auto want = packed.Run(&pool, x, slots);
        SwiGluParams params;
        params.gate = want[0].data();
        params.up = want[1].data();
        params.y = want[0].data();
        params.rows = static_cast<int64_t>(rows);
        params.width = params.gate_stride = params.up_stride = params.y_stride = 150;
        pool.Run([&](const TeamMember& member) { backend->SwiGlu(params, member); });
        problem.combine = Combine::kSwiGlu;
        EXPECT_EQ(packed.Run(&pool, x, slots)[0], want[0])
            << backend->name() << " rows " << rows << " threads " << threads;
      }
    }
  }
}

TEST_F(LinearTest, OneColumnOneRowOneK) {
  ExpectAllMatch(RandomProblem({1, {1}, {1}}, 5), Slots({0}), 6);
  ExpectAllMatch(RandomProblem({2, {17}, {}}, 7), Slots({-1, -1}), 8);
  ExpectAllMatch(RandomProblem({64, {640, 33}, {64, 16}}, 9), Slots({0, 0, 1, -1, 1}), 10);
}

TEST_F(LinearTest, ASlotMayActOnSomePartsOnly) {
  LinearProblem problem = RandomProblem({48, {32, 32, 32}, {8, 16}}, 11);
  problem.adapters[0][1].rank = 0;
  problem.adapters[1][0].rank = 0;
  problem.adapters[1][2].rank = 0;
  ExpectAllMatch(problem, Slots({1, 0, -1, 0, 1}), 12);
}

// So many ranks in one block of rows that the lines of B to fetch are more than a list of them
// holds, and A is fetched in pieces.
TEST_F(LinearTest, MoreLinesToFetchThanAListHolds) {
  constexpr int32_t kSlots = 48;
  const std::vector<int32_t> ranks(kSlots, 128);
  for (const DType factors : {DType::kBF16, DType::kF32}) {
    LinearProblem problem = RandomProblem({24, {64}, ranks, DType::kBF16, factors}, 27);
    // Many ranks make large sums.
    for (auto& adapter : problem.adapters) adapter[0].scale = 0.01;
    std::vector<int32_t> ids(kSlots);
    std::iota(ids.begin(), ids.end(), 0);
    ExpectAllMatch(problem, Slots(ids), 28);
  }
}

// A span may hold tiles of several types: a slot that mixes adapters.
TEST_F(LinearTest, SlotsOfDifferentTypesShareAStep) {
  LinearProblem problem = RandomProblem({40, {24}, {8, 8, 8}}, 13);
  std::mt19937 random(14);
  problem.adapters[1][0].dtype = DType::kF32;
  problem.adapters[1][0].a = RandomFloats(8 * 40, DType::kF32, 0.2f, &random);
  problem.adapters[2][0].dtype = DType::kF16;
  for (float& v : problem.adapters[2][0].a) v = RoundTo(DType::kF16, v);
  for (float& v : problem.adapters[2][0].b) v = RoundTo(DType::kF16, v);
  ExpectAllMatch(problem, Slots({2, 1, 0}), 15);
}

TEST_F(LinearTest, ArticleShapesKeepTheBaseRowBitForBit) {
  const LinearProblem problem = RandomProblem({4096, {12288}, {16, 1, 32}}, 16);
  std::mt19937 random(17);
  const std::vector<float> x = RandomFloats(3 * 4096, DType::kF32, 1.0f, &random);
  const PackedProblem expected(problem, *reference_, &context_);
  const auto want = expected.Run(&context_.pool, x, Slots({0, 2, -1}));
  const auto backend = OpenCpuBackend().value();
  const PackedProblem packed(problem, *backend, &context_);
  const auto got = packed.Run(&context_.pool, x, Slots({0, 2, -1}));
  EXPECT_LE(RelativeError(got[0], want[0]), 1e-5);
  const auto base = packed.Run(&context_.pool, x, Slots({-1, -1, -1}));
  EXPECT_TRUE(std::equal(got[0].begin() + 2 * 12288, got[0].end(), base[0].begin() + 2 * 12288));
  EXPECT_FALSE(std::equal(got[0].begin(), got[0].begin() + 12288, base[0].begin()));
}

TEST_F(LinearTest, ArticleInterleavedTokens) {
  ExpectAllMatch(RandomProblem({96, {80}, {16, 1, 32}}, 18), Slots({0, 2, 0, 1}), 19);
}

TEST_F(LinearTest, WithoutAnAdapterNoLoraKernelRuns) {
  const LinearProblem problem = RandomProblem({64, {64}, {8}}, 20);
  std::mt19937 random(21);
  const std::vector<float> x = RandomFloats(4 * 64, DType::kF32, 1.0f, &random);
  for (const auto& backend : backends_) {
    const PackedProblem packed(problem, *backend, &context_);
    Trace trace;
    packed.Run(&context_.pool, x, Slots({-1, -1, -1, -1}), &trace);
    EXPECT_EQ(trace.counter(Zone::kLinear).calls, 1);
    EXPECT_EQ(trace.counter(Zone::kLoraShrink).calls, 0);
    EXPECT_EQ(trace.counter(Zone::kLoraExpand).calls, 0);
    packed.Run(&context_.pool, x, Slots({-1, -1, 0, -1}), &trace);
    EXPECT_EQ(trace.counter(Zone::kLoraShrink).calls, 1);
    EXPECT_GE(trace.counter(Zone::kLoraExpand).calls, 1);
  }
}

TEST_F(LinearTest, RankTwentyIsPaddedWithZeros) {
  ExpectAllMatch(RandomProblem({130, {70}, {20, 20}}, 22), Slots({0, 1, 1, -1}), 23);
}

// Two ranks whose S are 1 + 2^-12 and 1, subtracted by B: a 16-bit S would round both to 1.
TEST_F(LinearTest, SIsKeptInFp32) {
  LinearProblem problem = RandomProblem({32, {16}, {2}}, 24);
  std::fill(problem.w[0].begin(), problem.w[0].end(), 0.0f);
  problem.bias[0].clear();
  FactorValues& f = problem.adapters[0][0];
  f.scale = 1.0;
  std::fill(f.a.begin(), f.a.end(), 0.0f);
  f.a[0] = 1.0f;
  f.a[1] = 0x1p-12f;
  f.a[32] = 1.0f;
  for (size_t n = 0; n < 16; ++n) {
    f.b[2 * n] = 1.0f;
    f.b[2 * n + 1] = -1.0f;
  }
  const std::vector<float> x(32, 1.0f);
  for (const auto& backend : backends_) {
    const PackedProblem packed(problem, *backend, &context_);
    const auto y = packed.Run(&context_.pool, x, Slots({0}));
    for (const float value : y[0]) EXPECT_EQ(value, 0x1p-12f);
  }
}

TEST_F(LinearTest, UnpackReturnsWhatWasPacked) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const LinearProblem problem = RandomProblem({33, {37}, {}, dtype}, 25);
    for (const auto& backend : backends_) {
      const VectorRows rows(&problem.w[0], 37, 33);
      const Weight weight = backend->PackWeight(rows, dtype, &context_).value();
      std::vector<float> row(33);
      for (int64_t n = 0; n < 37; ++n) {
        backend->UnpackRow(weight, n, row);
        EXPECT_TRUE(std::equal(row.begin(), row.end(), problem.w[0].begin() + n * 33));
      }
    }
  }
}

TEST(OpenBackend, NamesWhatItCannotServe) {
  EXPECT_EQ(OpenCpuBackend("mmx").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(RunnableIsas().front(), "scalar");
}

}  // namespace
}  // namespace lorica::kernels
