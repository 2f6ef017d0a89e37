// RMSNorm, RoPE, SwiGLU, embedding and sampling reductions of every instruction set against the
// reference in double; AVX2 and AVX-512 bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lorica/kernels/linear_fixture.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::kernels {
namespace {

class PointwiseTest : public testing::Test {
 protected:
  PointwiseTest() : reference_(OpenReferenceBackend(Sums::kF64)) {
    for (const std::string_view isa : RunnableIsas()) {
      backends_.push_back(OpenCpuBackend(isa).value());
    }
  }

  std::vector<float> Random(int64_t n, float spread = 1.0f) {
    return RandomFloats(n, DType::kF32, spread, &random_);
  }
  // `run` on one backend gives its output; each must be near the reference's, relative to the
  // greater of 1 and the value; FMA sets must agree bit for bit, for 1 to 3 threads.
  void Compare(double tolerance,
               const std::function<std::vector<float>(const Backend&, ThreadPool*)>& run) {
    ThreadPool one(1);
    ThreadPool three(3);
    const std::vector<float> want = run(*reference_, &one);
    std::vector<float> avx2;
    for (const auto& backend : backends_) {
      const std::vector<float> got = run(*backend, &one);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(double{want[i]})))
            << backend->name() << " at " << i;
      }
      EXPECT_EQ(got, run(*backend, &three)) << backend->name() << ": threads change bits";
      if (backend->name() == "cpu avx2") avx2 = got;
      if (backend->name().starts_with("cpu avx512") && !avx2.empty()) {
        EXPECT_EQ(avx2, got);
      }
    }
  }

  std::mt19937 random_{60};
  std::unique_ptr<Backend> reference_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

TEST_F(PointwiseTest, RmsNorm) {
  for (const int64_t width : {1, 15, 16, 576, 1001}) {
    const std::vector<float> x = Random(5 * width);
    const std::vector<float> weight = Random(width);
    Compare(2e-6, [&](const Backend& backend, ThreadPool* pool) {
      std::vector<float> y(x.size());
      RmsNormParams p;
      p.x = x.data();
      p.y = y.data();
      p.rows = 5;
      p.width = p.x_stride = p.y_stride = width;
      p.weight = weight.data();
      pool->Run([&](const TeamMember& member) { backend.RmsNorm(p, member); });
      return y;
    });
  }
}

TEST_F(PointwiseTest, Rope) {
  for (const int32_t dims : {16, 64, 80}) {
    const int32_t head_dim = dims + 4;  // the last four are not rotated
    const std::vector<float> q = Random(3 * 4 * head_dim);
    const std::vector<float> k = Random(3 * 2 * head_dim);
    const std::vector<float> cosines = Random(10 * dims / 2);
    const std::vector<float> sines = Random(10 * dims / 2);
    const std::vector<int32_t> positions = {9, 0, 4};
    Compare(1e-6, [&](const Backend& backend, ThreadPool* pool) {
      std::vector<float> out_q = q;
      std::vector<float> out_k = k;
      RopeParams p;
      p.q = out_q.data();
      p.k = out_k.data();
      p.q_stride = 4 * head_dim;
      p.k_stride = 2 * head_dim;
      p.rows = 3;
      p.heads = 4;
      p.kv_heads = 2;
      p.head_dim = head_dim;
      p.rotary_dims = dims;
      p.positions = positions.data();
      p.cos_table = cosines.data();
      p.sin_table = sines.data();
      pool->Run([&](const TeamMember& member) { backend.Rope(p, member); });
      out_q.insert(out_q.end(), out_k.begin(), out_k.end());
      return out_q;
    });
  }
}

TEST_F(PointwiseTest, SwiGlu) {
  for (const int64_t width : {1, 33, 128}) {
    std::vector<float> gate = Random(3 * width, 6.0f);
    gate[0] = -200.0f;
    const std::vector<float> up = Random(3 * width);
    Compare(2e-6, [&](const Backend& backend, ThreadPool* pool) {
      std::vector<float> y(gate.size());
      SwiGluParams p;
      p.gate = gate.data();
      p.up = up.data();
      p.y = y.data();
      p.rows = 3;
      p.width = p.gate_stride = p.up_stride = p.y_stride = width;
      pool->Run([&](const TeamMember& member) { backend.SwiGlu(p, member); });
      return y;
    });
  }
}

TEST_F(PointwiseTest, Embed) {
  const std::vector<float> values = RandomFloats(40 * 21, DType::kBF16, 1.0f, &random_);
  const std::vector<int32_t> tokens = {39, 0, 17, 17};
  MachineContext context(1);
  Compare(0.0, [&](const Backend& backend, ThreadPool* pool) {
    const VectorRows rows(&values, 40, 21);
    const Weight table = backend.PackWeight(rows, DType::kBF16, &context).value();
    std::vector<float> y(4 * 21);
    EmbedParams p;
    p.table = &table;
    p.tokens = tokens;
    p.y = y.data();
    p.y_stride = 21;
    pool->Run([&](const TeamMember& member) { backend.Embed(p, member); });
    return y;
  });
}

TEST_F(PointwiseTest, LogitStats) {
  for (const int64_t vocab : {1, 100, 9001}) {
    std::vector<float> logits = Random(3 * vocab, 5.0f);
    logits[static_cast<size_t>(vocab) / 2] = 30.0f;
    logits[static_cast<size_t>(vocab) / 3] = 30.0f;
    Compare(2e-6, [&](const Backend& backend, ThreadPool* pool) {
      std::vector<RowStats> stats(3);
      LogitStatsParams p;
      p.logits = logits.data();
      p.rows = 3;
      p.vocab = p.stride = vocab;
      std::vector<VocabBlockStats> blocks(static_cast<size_t>(3 * VocabBlocks(vocab)));
      p.stats = stats.data();
      p.blocks = blocks.data();
      pool->Run([&](const TeamMember& member) { backend.LogitStats(p, member); });
      std::vector<float> out;
      for (const RowStats& s : stats) {
        EXPECT_TRUE(s.finite);
        out.insert(out.end(), {s.max, static_cast<float>(s.argmax), static_cast<float>(s.sum_exp)});
      }
      return out;
    });
  }
}

TEST_F(PointwiseTest, ThreadsThatShareARowOfLogitsChangeNoBit) {
  constexpr int64_t kVocab = 5 * kVocabBlock + 77;
  std::vector<float> logits = Random(5 * kVocab, 5.0f);
  logits[kVocab + 3] = std::nanf("");  // row 1 alone
  for (const auto& backend : backends_) {
    std::vector<RowStats> first;
    for (const int threads : {1, 2, 3, 7}) {
      for (const int64_t rows : {1, 3, 5}) {
        ThreadPool pool(threads);
        std::vector<RowStats> stats(static_cast<size_t>(rows));
        std::vector<VocabBlockStats> blocks(static_cast<size_t>(rows * VocabBlocks(kVocab)));
        LogitStatsParams p;
        p.logits = logits.data();
        p.rows = rows;
        p.vocab = p.stride = kVocab;
        p.stats = stats.data();
        p.blocks = blocks.data();
        pool.Run([&](const TeamMember& member) { backend->LogitStats(p, member); });
        if (threads == 1 && rows == 5) first = stats;
        for (size_t row = 0; row < stats.size() && !first.empty(); ++row) {
          ASSERT_EQ(stats[row].finite, row != 1);
          if (row == 1) continue;
          ASSERT_EQ(stats[row].max, first[row].max) << backend->name() << " threads " << threads;
          ASSERT_EQ(stats[row].argmax, first[row].argmax);
          ASSERT_EQ(stats[row].sum_exp, first[row].sum_exp);
        }
      }
    }
  }
}

TEST_F(PointwiseTest, LogitStatsSeesWhatIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {size_t{0}, size_t{32}}) {
      std::vector<float> logits = Random(33);
      logits[at] = bad;
      for (const auto& backend : backends_) {
        RowStats stats;
        LogitStatsParams p;
        p.logits = logits.data();
        p.rows = 1;
        p.vocab = p.stride = 33;
        VocabBlockStats block;
        p.stats = &stats;
        p.blocks = &block;
        backend->LogitStats(p, TeamMember{});
        EXPECT_FALSE(stats.finite) << backend->name();
      }
    }
  }
}

}  // namespace
}  // namespace lorica::kernels
