// Modelled cycles against sums made by hand, and the trace's form.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "lorica/kernels/ascend/sim/test_kernels.h"

namespace lorica::ascend {
namespace {

using namespace AscendC;  // NOLINT: the test is a list of its calls

class TimelineTest : public ::testing::Test {
 protected:
  Timeline Run(const std::function<void()>& kernel, LaunchOptions options = {},
               bool in_l2 = false) {
    auto sim = OpenSim();
    AddVector(sim.get(), "data", &data_, {true, in_l2});
    options.trace = true;
    LaunchResult result = sim->Launch(options, kernel);
    EXPECT_TRUE(result.report.ok()) << result.report.ToString();
    return result.timeline;
  }
  // `copies` copies of 64 KiB from GM to L1, from this core's own part.
  std::function<void()> Copies(int copies) {
    return [this, copies] {
      GlobalTensor<half> gm;
      gm.SetGlobalBuffer(data_.data());
      for (int i = 0; i < copies; ++i) {
        DataCopy(LocalTensor<half>(TPosition::A1, static_cast<uint32_t>(i) * kBytes, kBytes / 2),
                 gm[static_cast<uint64_t>(GetBlockIdx() * copies + i) * kBytes / 2], kBytes / 2);
      }
    };
  }
  static constexpr uint32_t kBytes = 65536;
  const SocSpec soc_ = *FindSoc("910B3");
  std::vector<half> data_ = std::vector<half>(20 * 7 * kBytes / 2);
};

TEST_F(TimelineTest, OneCopyIsLatencyAndBytes) {
  const Timeline cold = Run(Copies(1));
  const double carry = kBytes / soc_.gm_to_l1;
  EXPECT_NEAR(cold.cycles, carry + soc_.memory_latency, 20);
  const Timeline warm = Run(Copies(1), {}, true);
  EXPECT_NEAR(warm.cycles, carry + soc_.l2_latency, 20);
  EXPECT_EQ(cold.memory_bytes, kBytes);
  EXPECT_EQ(warm.memory_bytes, 0);
  EXPECT_EQ(warm.l2_bytes, kBytes);
}

TEST_F(TimelineTest, CopiesInARowPayTheLatencyOnce) {
  const Timeline seven = Run(Copies(7));
  EXPECT_NEAR(seven.cycles, 7 * kBytes / soc_.gm_to_l1 + soc_.memory_latency, 20);
}

TEST_F(TimelineTest, CoresShareTheMemory) {
  LaunchOptions options;
  options.blocks = 20;
  const Timeline all = Run(Copies(7), options);
  EXPECT_NEAR(all.cycles, 20 * 7 * kBytes / soc_.memory_rate + soc_.memory_latency, 30);
  EXPECT_NEAR(all.memory_floor_cycles, 20 * 7 * kBytes / soc_.memory_rate, 1);
  const Timeline warm = Run(Copies(7), options, true);
  EXPECT_LT(warm.cycles, all.cycles / 2);
}

TEST_F(TimelineTest, ScalesOfDoubtfulConstants) {
  LaunchOptions slow;
  slow.memory_latency_scale = 2;
  EXPECT_NEAR(Run(Copies(1), slow).cycles - Run(Copies(1)).cycles, soc_.memory_latency, 1);
  LaunchOptions half_rate;
  half_rate.mte2_rate_scale = 0.5;
  EXPECT_NEAR(Run(Copies(1), half_rate).cycles, 2 * kBytes / soc_.gm_to_l1 + soc_.memory_latency,
              20);
}

TEST_F(TimelineTest, ARepeatedReadComesFromL2) {
  const Timeline twice = Run([this] {
    GlobalTensor<half> gm;
    gm.SetGlobalBuffer(data_.data());
    DataCopy(LocalTensor<half>(TPosition::A1, 0, kBytes / 2), gm, kBytes / 2);
    DataCopy(LocalTensor<half>(TPosition::A1, kBytes, kBytes / 2), gm, kBytes / 2);
  });
  EXPECT_EQ(twice.memory_bytes, kBytes);
  EXPECT_EQ(twice.l2_bytes, 2 * kBytes);
}

// Two independent pipes overlap; a flag between them makes them add up.
TEST_F(TimelineTest, FlagsMakePipesWait) {
  const auto kernel = [this](bool chained) {
    return [this, chained] {
      GlobalTensor<half> gm;
      gm.SetGlobalBuffer(data_.data());
      const LocalTensor<half> l1(TPosition::A1, 0, 32768), other(TPosition::A1, kBytes, 32768);
      DataCopy(other, gm, 32768);
      SetFlag<HardEvent::MTE2_MTE1>(0);
      WaitFlag<HardEvent::MTE2_MTE1>(0);
      DataCopy(l1, gm, 32768);
      if (chained) SetFlag<HardEvent::MTE2_MTE1>(0);
      if (chained) WaitFlag<HardEvent::MTE2_MTE1>(0);
      for (int i = 0; i < 8; ++i) {
        LoadData(LocalTensor<half>(TPosition::B2, 0, 32768), other,
                 LoadData2DParams(0, 127, 1, 0, 0, false, 0));
        PipeBarrier<PIPE_MTE1>();
      }
    };
  };
  const double loads = 8 * 127 * 512 / soc_.l1_to_l0b;
  const double copy = kBytes / soc_.gm_to_l1;
  const Timeline overlapped = Run(kernel(false));
  const Timeline chained = Run(kernel(true));
  // The second copy ends one copy later, but comes from L2.
  EXPECT_NEAR(chained.cycles - overlapped.cycles, copy + soc_.l2_latency - soc_.memory_latency, 10);
  EXPECT_GE(overlapped.busy[PIPE_MTE1], loads - 1);
}

TEST_F(TimelineTest, MmadTakesItsSteps) {
  const auto kernel = [this](uint16_t rows) {
    return [this, rows] {
      GlobalTensor<half> gm;
      gm.SetGlobalBuffer(data_.data());
      const LocalTensor<half> a(TPosition::A2, 0, 32 * 64), b(TPosition::B2, 0, 64 * 80);
      LoadData(a, gm, LoadData2DParams(0, 8, 1, 0, 0, false, 0));
      LoadData(b, gm, LoadData2DParams(0, 20, 1, 0, 0, false, 0));
      SetFlag<HardEvent::MTE2_M>(0);
      WaitFlag<HardEvent::MTE2_M>(0);
      Mmad(LocalTensor<float>(TPosition::CO1, 0, 32 * 80), a, b,
           MmadParams(rows, 80, 64, 0, false, true));
    };
  };
  EXPECT_EQ(Run(kernel(32)).busy[PIPE_M], soc_.mmad_head + 2 * 5 * 4);
  // One block of rows takes as long as two, unless the launch says otherwise.
  EXPECT_EQ(Run(kernel(16)).busy[PIPE_M], soc_.mmad_head + 2 * 5 * 4);
  LaunchOptions documented;
  documented.mmad_least_row_blocks = 1;
  EXPECT_EQ(Run(kernel(16), documented).busy[PIPE_M], soc_.mmad_head + 5 * 4);
}

TEST_F(TimelineTest, TheTraceIsJsonAndTheTableNamesItsColumns) {
  LaunchOptions options;
  options.blocks = 2;
  const Timeline timeline = Run(Copies(2), options);
  boost::system::error_code error;
  const boost::json::value trace = boost::json::parse(timeline.ToTraceJson(), error);
  ASSERT_FALSE(error) << error.message();
  int slices = 0;
  for (const boost::json::value& event : trace.at("traceEvents").as_array()) {
    if (event.at("ph").as_string() == "X") ++slices;
  }
  EXPECT_EQ(slices, 4);
  EXPECT_NE(timeline.ToCsv().find("aic_mte2_ratio"), std::string::npos);
}

TEST_F(TimelineTest, EveryConstantHasASource) {
  for (const ConstantNote& note : ConstantNotes()) {
    EXPECT_FALSE(note.source.empty()) << note.field;
    EXPECT_FALSE(note.doubt.empty()) << note.field;
  }
  EXPECT_EQ(SocNames().size(), 3u);
}

}  // namespace
}  // namespace lorica::ascend
