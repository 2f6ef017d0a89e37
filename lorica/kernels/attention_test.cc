// Paged attention: against the reference in double, and a row's bits against everything that must
// not matter: chunking, neighbours, threads, stale bytes in unused slots of a page.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "lorica/kernels/open_backend.h"

namespace lorica::kernels {
namespace {

struct Dims {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  DType dtype = DType::kF32;
};

// Prompts of given lengths with their q, k and v, and pages in a shuffled order.
struct World {
  Dims dims;
  KvLayout layout;
  std::vector<int32_t> lengths;
  std::vector<std::vector<float>> q, k, v;  // of each sequence
  std::vector<std::vector<int32_t>> page_ids;
  int32_t page_count = 0;

  World(Dims d, std::vector<int32_t> sequence_lengths, uint32_t seed)
      : dims(d), lengths(std::move(sequence_lengths)) {
    layout = {d.dtype, kPageTokens, 2, d.kv_heads, d.head_dim};
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](int64_t n) {
      std::vector<float> out(static_cast<size_t>(n));
      for (float& value : out) value = normal(random);
      return out;
    };
    for (const int32_t length : lengths) {
      q.push_back(fill(int64_t{length} * d.heads * d.head_dim));
      k.push_back(fill(int64_t{length} * d.kv_heads * d.head_dim));
      v.push_back(fill(int64_t{length} * d.kv_heads * d.head_dim));
      page_count += (length + kPageTokens - 1) / kPageTokens;
    }
    std::vector<int32_t> ids(static_cast<size_t>(page_count));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    for (const int32_t length : lengths) {
      const int32_t pages = (length + kPageTokens - 1) / kPageTokens;
      page_ids.emplace_back(ids.end() - pages, ids.end());
      ids.resize(ids.size() - static_cast<size_t>(pages));
    }
  }
};

// out of every sequence, computed in steps of at most `chunk` rows a sequence.
std::vector<std::vector<float>> RunAll(const World& world, const Backend& backend, int threads,
                                       int32_t chunk, const std::vector<size_t>& order) {
  ThreadPool pool(threads);
  const Dims& d = world.dims;
  // Unused slots hold NaN: reading one into a sum would show.
  std::vector<std::byte> pages(static_cast<size_t>(world.page_count * world.layout.PageBytes()),
                               std::byte{0xff});
  const auto q_width = static_cast<size_t>(d.heads * d.head_dim);
  const auto kv_width = static_cast<size_t>(d.kv_heads * d.head_dim);
  std::vector<std::vector<float>> out;
  int32_t longest = 0;
  for (const int32_t length : world.lengths) {
    out.emplace_back(static_cast<size_t>(length) * q_width);
    longest = std::max(longest, length);
  }
  for (int32_t begin = 0; begin < longest; begin += chunk) {
    std::vector<float> q, k, v;
    std::vector<AttentionSequence> sequences;
    std::vector<size_t> who;
    for (const size_t s : order) {
      const int32_t rows = std::min(chunk, world.lengths[s] - begin);
      if (rows <= 0) continue;
      AttentionSequence sequence;
      sequence.row_begin = static_cast<int32_t>(q.size() / q_width);
      sequence.rows = rows;
      sequence.position_begin = begin;
      sequence.pages = world.page_ids[s].data();
      sequences.push_back(sequence);
      who.push_back(s);
      const auto append = [&](std::vector<float>* to, const std::vector<float>& from,
                              size_t width) {
        to->insert(to->end(), from.begin() + static_cast<int64_t>(begin * width),
                   from.begin() + static_cast<int64_t>((begin + rows) * width));
      };
      append(&q, world.q[s], q_width);
      append(&k, world.k[s], kv_width);
      append(&v, world.v[s], kv_width);
    }
    std::vector<float> step_out(q.size());
    const int64_t scratch_floats = backend.AttentionScratchFloats({.heads = d.heads,
                                                                   .kv_heads = d.kv_heads,
                                                                   .head_dim = d.head_dim,
                                                                   .max_positions = longest});
    std::vector<float> scratch(static_cast<size_t>(scratch_floats * threads));
    KvWriteParams write;
    write.k = k.data();
    write.v = v.data();
    write.k_stride = write.v_stride = static_cast<int64_t>(kv_width);
    write.layout = world.layout;
    write.layer = 1;
    write.pages = pages.data();
    write.sequences = sequences;
    AttentionParams attend;
    attend.q = q.data();
    attend.out = step_out.data();
    attend.q_stride = attend.out_stride = static_cast<int64_t>(q_width);
    attend.heads = d.heads;
    attend.scale = 1.0f / std::sqrt(static_cast<float>(d.head_dim));
    attend.layout = world.layout;
    attend.layer = 1;
    attend.pages = pages.data();
    attend.sequences = sequences;
    attend.scratch = scratch.data();
    attend.scratch_floats = scratch_floats;
    pool.Run([&](const TeamMember& member) {
      backend.KvWrite(write, member);
      member.Sync();
      backend.Attention(attend, member);
    });
    for (size_t i = 0; i < sequences.size(); ++i) {
      std::copy_n(step_out.begin() + static_cast<int64_t>(sequences[i].row_begin * q_width),
                  static_cast<size_t>(sequences[i].rows) * q_width,
                  out[who[i]].begin() + static_cast<int64_t>(begin * q_width));
    }
  }
  return out;
}

std::vector<std::unique_ptr<Backend>> AllBackends() {
  std::vector<std::unique_ptr<Backend>> out;
  for (const std::string_view isa : RunnableIsas()) out.push_back(OpenCpuBackend(isa).value());
  return out;
}

TEST(Attention, MatchesTheReferenceInDouble) {
  const auto reference = OpenReferenceBackend(Sums::kF64);
  const auto backends = AllBackends();
  uint32_t seed = 40;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    for (const Dims& dims : {Dims{3, 1, 16, dtype}, Dims{4, 4, 64, dtype}, Dims{9, 3, 80, dtype},
                             Dims{20, 2, 128, dtype}, Dims{2, 1, 20, dtype},
                             // Heads that end inside a line of K, and inside a vector of V.
                             Dims{2, 1, 18, dtype}, Dims{3, 1, 7, dtype}}) {
      // Whole pages too: what is read past the last of them is past all that there is.
      const World world(dims, {1, 17, 40, 32, 16}, ++seed);
      const auto want = RunAll(world, *reference, 1, 64, {0, 1, 2, 3, 4});
      for (const auto& backend : backends) {
        const auto got = RunAll(world, *backend, 2, 64, {0, 1, 2, 3, 4});
        for (size_t s = 0; s < want.size(); ++s) {
          for (size_t i = 0; i < want[s].size(); ++i) {
            ASSERT_NEAR(got[s][i], want[s][i], 4e-6) << backend->name() << " " << dims.head_dim;
          }
        }
      }
    }
  }
}

TEST(Attention, LongSequencesCrossBlocks) {
  const auto reference = OpenReferenceBackend(Sums::kF64);
  const World world({2, 1, 16, DType::kF32}, {700}, 50);
  const auto want = RunAll(world, *reference, 1, 700, {0});
  for (const auto& backend : AllBackends()) {
    const auto got = RunAll(world, *backend, 1, 700, {0});
    for (size_t i = 0; i < want[0].size(); ++i) ASSERT_NEAR(got[0][i], want[0][i], 4e-6);
  }
}

// Queries of zero: every weight is 1, so each output is a sum of V, added here again in the order
// that is promised: one chain over each 256 absolute positions, the blocks added in order.
TEST(Attention, VIsAddedInBlocksOf256Positions) {
  constexpr int32_t kLength = 1030;
  constexpr int32_t kDim = 32;
  World world({2, 1, kDim, DType::kF32}, {kLength}, 55);
  std::fill(world.q[0].begin(), world.q[0].end(), 0.0f);
  for (const int32_t chunk : {kLength, 1029, 100}) {
    for (const auto& backend : AllBackends()) {
      const auto got = RunAll(world, *backend, 2, chunk, {0});
      for (int32_t row = 0; row < kLength; row += 37) {
        for (int32_t d = 0; d < kDim; ++d) {
          float total = 0.0f;
          for (int32_t begin = 0; begin <= row; begin += 256) {
            float chain = 0.0f;
            for (int32_t t = begin; t <= row && t < begin + 256; ++t) {
              chain += world.v[0][static_cast<size_t>(t * kDim + d)];
            }
            total = begin == 0 ? chain : total + chain;
          }
          const float want = total / static_cast<float>(row + 1);
          ASSERT_EQ(got[0][static_cast<size_t>(row * 2 * kDim + d)], want)
              << backend->name() << " row " << row << " chunk " << chunk;
        }
      }
    }
  }
}

TEST(Attention, BitsDependOnTheSequenceAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    const World world({6, 2, 64, dtype}, {270, 1, 33, 16, 257}, 51);
    std::vector<std::vector<float>> first;
    for (const auto& backend : AllBackends()) {
      const auto want = RunAll(world, *backend, 1, 1000, {0, 1, 2, 3, 4});
      struct Cut {
        int threads;
        int32_t chunk;
      };
      for (const Cut& cut : {Cut{1, 1}, Cut{2, 7}, Cut{3, 64}, Cut{2, 1000}}) {
        const auto got = RunAll(world, *backend, cut.threads, cut.chunk, {4, 2, 0, 1, 3});
        for (size_t s = 0; s < want.size(); ++s) {
          ASSERT_EQ(std::memcmp(got[s].data(), want[s].data(), want[s].size() * 4), 0)
              << backend->name() << " threads " << cut.threads << " chunk " << cut.chunk;
        }
      }
      if (backend->name() == "cpu avx2") first = want;
      if (backend->name().starts_with("cpu avx512")) {
        EXPECT_EQ(first, want) << "AVX-512 differs from AVX2";
      }
    }
  }
}

// Long enough that threads share a sequence by its blocks, with groups of every size that queries
// are taken in.
TEST(Attention, ThreadsThatShareASequenceChangeNoBit) {
  uint32_t seed = 70;
  for (const int32_t group : {1, 2, 3, 5, 7, 8, 26}) {
    const DType dtype = group % 2 == 0 ? DType::kI8 : DType::kBF16;
    // The last position decodes.
    const World world({group, 1, 32, dtype}, {1030, 40, 800}, ++seed);
    std::vector<float> first;
    for (const auto& backend : AllBackends()) {
      const auto want = RunAll(world, *backend, 1, 1030, {0, 1, 2});
      for (const int threads : {2, 5}) {
        const auto got = RunAll(world, *backend, threads, 1029, {1, 2, 0});
        ASSERT_EQ(got, want) << backend->name() << " threads " << threads << " group " << group;
      }
      if (backend->name() == "cpu avx2") first = want[0];
      if (backend->name().starts_with("cpu avx512")) {
        ASSERT_EQ(first, want[0]);
      }
    }
  }
}

// The error of int8 is that of its 127 steps a row: bounded by what the rows hold, and smaller than
// what a wrong scale or a neighbour's would make.
TEST(Attention, Int8IsNearWhatWasWritten) {
  const auto reference = OpenReferenceBackend(Sums::kF64);
  World world({4, 2, 64, DType::kF32}, {300}, 80);
  for (size_t i = 0; i < world.v[0].size(); ++i) {
    // Rows of very different sizes: one scale for several would not do.
    const size_t row = i / 64;
    world.v[0][i] *= row % 2 == 0 ? 1.0f : 1e-3f;
    world.k[0][i] *= row % 3 == 0 ? 1.0f : 0.1f;
  }
  const auto want = RunAll(world, *reference, 1, 300, {0});
  world.layout.dtype = DType::kI8;
  for (const auto& backend : AllBackends()) {
    const auto got = RunAll(world, *backend, 2, 300, {0});
    double error = 0.0;
    double power = 0.0;
    for (size_t i = 0; i < want[0].size(); ++i) {
      error += std::pow(double{got[0][i]} - double{want[0][i]}, 2);
      power += std::pow(double{want[0][i]}, 2);
    }
    EXPECT_LT(std::sqrt(error / power), 0.02) << backend->name();
    EXPECT_GT(error, 0.0);
  }
}

// No thread writes what another one rotates: each does both alone, whenever it comes.
TEST(Attention, KvWriteMayFollowRope) {
  constexpr int32_t kRows = 5, kHeads = 6, kKvHeads = 3, kDim = 8;
  std::vector<std::unique_ptr<Backend>> backends = AllBackends();
  backends.push_back(OpenReferenceBackend(Sums::kF32));
  std::mt19937 random(90);
  std::normal_distribution<float> normal;
  const auto fill = [&](size_t n) {
    std::vector<float> out(n);
    for (float& value : out) value = normal(random);
    return out;
  };
  const std::vector<float> q = fill(kRows * kHeads * kDim);
  const std::vector<float> k = fill(kRows * kKvHeads * kDim);
  const std::vector<float> table = fill(kRows * kDim / 2);
  const std::vector<int32_t> positions = {0, 1, 0, 1, 2};
  const int32_t pages[] = {0, 1};
  const AttentionSequence sequences[] = {{.row_begin = 0, .rows = 2, .pages = pages},
                                         {.row_begin = 2, .rows = 3, .pages = pages + 1}};
  for (const auto& backend : backends) {
    std::vector<std::vector<std::byte>> written;
    for (const std::vector<int>& order : {std::vector<int>{0}, {0, 1, 2, 3}, {3, 2, 1, 0}}) {
      std::vector<float> my_q = q;
      std::vector<float> my_k = k;
      KvLayout layout{.layers = 1, .kv_heads = kKvHeads, .head_dim = kDim};
      std::vector<std::byte> bytes(static_cast<size_t>(2 * layout.PageBytes()));
      RopeParams rope;
      rope.q = my_q.data();
      rope.k = my_k.data();
      rope.q_stride = kHeads * kDim;
      rope.k_stride = kKvHeads * kDim;
      rope.rows = kRows;
      rope.heads = kHeads;
      rope.kv_heads = kKvHeads;
      rope.head_dim = rope.rotary_dims = kDim;
      rope.positions = positions.data();
      rope.cos_table = rope.sin_table = table.data();
      KvWriteParams write;
      write.k = my_k.data();
      write.v = k.data();
      write.k_stride = write.v_stride = kKvHeads * kDim;
      write.layout = layout;
      write.pages = bytes.data();
      write.sequences = sequences;
      for (const int thread : order) {
        const TeamMember member{thread, static_cast<int>(order.size()), nullptr};
        backend->Rope(rope, member);
        backend->KvWrite(write, member);
      }
      written.push_back(bytes);
    }
    EXPECT_EQ(written[1], written[0]) << backend->name();
    EXPECT_EQ(written[2], written[0]) << backend->name();
  }
}

// A neighbour full of infinities and NaN changes no bit of the others.
TEST(Attention, NonFiniteNeighboursAreAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    for (const auto& backend : AllBackends()) {
      const World world({4, 2, 32, dtype}, {20, 35, 50}, 52);
      const auto want = RunAll(world, *backend, 2, 16, {0, 1, 2});
      World broken = world;
      for (float& value : broken.v[1]) value = std::numeric_limits<float>::infinity();
      for (float& value : broken.k[1]) value = std::nanf("");
      const auto got = RunAll(broken, *backend, 2, 16, {0, 1, 2});
      EXPECT_EQ(want[0], got[0]);
      EXPECT_EQ(want[2], got[2]);
      EXPECT_FALSE(std::isfinite(got[1].back())) << backend->name() << " " << DTypeName(dtype);
      // By overflow alone: what is too large for f16 is infinite there.
      if (dtype != DType::kF16) continue;
      broken.k = world.k;
      for (float& value : broken.v[1]) value = 1e5f;
      EXPECT_FALSE(std::isfinite(RunAll(broken, *backend, 2, 16, {0, 1, 2})[1].back()))
          << backend->name();
    }
  }
}

}  // namespace
}  // namespace lorica::kernels
