// Several cores: flags of every mode, races and atomics in GM, counters, deadlocks, the scalar
// cache.
#include <gtest/gtest.h>

#include "lorica/kernels/ascend/sim/test_kernels.h"

namespace lorica::ascend {
namespace {

using namespace AscendC;  // NOLINT: the test is a list of its calls

class CrossCoreTest : public ::testing::Test {
 protected:
  LaunchResult Run(KernelType type, int32_t blocks, const std::function<void()>& kernel) {
    auto sim = OpenSim();
    AddVector(sim.get(), "data", &data_);
    AddVector(sim.get(), "floats", &floats_);
    AddVector(sim.get(), "ints", &ints_);
    LaunchOptions options;
    options.type = type;
    options.blocks = blocks;
    return sim->Launch(options, kernel);
  }
  GlobalTensor<half> Data() {
    GlobalTensor<half> tensor;
    tensor.SetGlobalBuffer(data_.data());
    return tensor;
  }
  GlobalTensor<float> Floats() {
    GlobalTensor<float> tensor;
    tensor.SetGlobalBuffer(floats_.data());
    return tensor;
  }
  // 16 values to floats_[at], from UB.
  void Store(int64_t at, float value, bool atomic) {
    const LocalTensor<float> u(TPosition::VECOUT, 0, 16);
    Duplicate(u, value, 16);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    if (atomic) SetAtomicAdd<float>();
    DataCopy(Floats()[static_cast<uint64_t>(at)], u, 16);
    SetAtomicNone();
    SetFlag<HardEvent::MTE3_V>(0);
    WaitFlag<HardEvent::MTE3_V>(0);
  }
  // floats_[at .. +16) to UB, added to floats_[to].
  void Load(int64_t at) {
    const LocalTensor<float> u(TPosition::VECIN, 1024, 16);
    DataCopy(u, Floats()[static_cast<uint64_t>(at)], 16);
  }

  std::vector<half> data_ = Filled<half>(4096, 1);
  std::vector<float> floats_ = std::vector<float>(4096, 0.0f);
  std::vector<int32_t> ints_ = std::vector<int32_t>(1024, 0);
};

TEST_F(CrossCoreTest, DisjointWritesAndSharedReadsAreSilent) {
  const SimReport report = Run(KernelType::kAivOnly, 8, [&] {
                             Load(2048);
                             Store(GetBlockIdx() * 16, 1.0f, false);
                           }).report;
  EXPECT_TRUE(report.ok()) << report.ToString();
}

TEST_F(CrossCoreTest, TwoCoresOnOnePlaceRace) {
  SimReport report = Run(KernelType::kAivOnly, 2, [&] { Store(0, 1.0f, false); }).report;
  ASSERT_TRUE(report.Has(ErrorKind::kGmRace));
  EXPECT_NE(report.errors[0].message.find("GM floats [0, 64)"), std::string::npos)
      << report.errors[0].message;
  EXPECT_NE(report.errors[0].message.find("core 1"), std::string::npos);
  report = Run(KernelType::kAivOnly, 2, [&] {
             if (GetBlockIdx() == 0) Store(0, 1.0f, false);
             if (GetBlockIdx() == 1) Load(0);
           }).report;
  EXPECT_TRUE(report.Has(ErrorKind::kGmRace));
}

TEST_F(CrossCoreTest, FloatAtomicsOfTwoCoresHaveNoOrder) {
  const SimReport report = Run(KernelType::kAivOnly, 2, [&] { Store(0, 1.0f, true); }).report;
  EXPECT_TRUE(report.Has(ErrorKind::kFloatAtomicOrder)) << report.ToString();
  const SimReport one = Run(KernelType::kAivOnly, 1, [&] {
                          Store(0, 1.0f, true);
                          Store(0, 2.0f, true);
                        }).report;
  EXPECT_TRUE(one.ok()) << one.ToString();
}

TEST_F(CrossCoreTest, IntegerAtomicsAreInAnyOrder) {
  const SimReport report = Run(KernelType::kAivOnly, 4, [&] {
                             const LocalTensor<int32_t> u(TPosition::VECOUT, 0, 8);
                             GlobalTensor<int32_t> to;
                             to.SetGlobalBuffer(ints_.data());
                             Duplicate(u, int32_t{3}, 8);
                             SetFlag<HardEvent::V_MTE3>(0);
                             WaitFlag<HardEvent::V_MTE3>(0);
                             SetAtomicAdd<int32_t>();
                             DataCopy(to, u, 8);
                             SetAtomicNone();
                           }).report;
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(ints_[0], 12);
}

TEST_F(CrossCoreTest, AllCoresMeetByModeZero) {
  const auto kernel = [&](bool flag) {
    return [&, flag] {
      Store(GetBlockIdx() * 16, static_cast<float>(GetBlockIdx()), false);
      if (flag) CrossCoreSetFlag<0, PIPE_MTE3>(3);
      if (flag) CrossCoreWaitFlag<0, PIPE_MTE2>(3);
      Load((GetBlockIdx() + 1) % GetBlockNum() * 16);
    };
  };
  LaunchResult result = Run(KernelType::kMixAiv1_0, 6, kernel(true));
  EXPECT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_GT(result.timeline.cycles, 0);
  EXPECT_TRUE(Run(KernelType::kMixAiv1_0, 6, kernel(false)).report.Has(ErrorKind::kGmRace));
}

TEST_F(CrossCoreTest, TheFlagMustComeFromThePipeThatWrites) {
  const SimReport report = Run(KernelType::kMixAiv1_0, 2, [&] {
                             Store(GetBlockIdx() * 16, 1.0f, false);
                             CrossCoreSetFlag<0, PIPE_MTE2>(3);
                             CrossCoreWaitFlag<0, PIPE_MTE2>(3);
                             Load((1 - GetBlockIdx()) * 16);
                           }).report;
  // Store ends with a flag to V, which MTE2 does not know of.
  EXPECT_TRUE(report.Has(ErrorKind::kGmRace)) << report.ToString();
}

TEST_F(CrossCoreTest, SyncAllOrdersEverything) {
  const SimReport report = Run(KernelType::kMixAiv1_0, 5, [&] {
                             Store(GetBlockIdx() * 16, 1.0f, false);
                             SyncAll();
                             Load((GetBlockIdx() + 2) % 5 * 16);
                           }).report;
  EXPECT_TRUE(report.ok()) << report.ToString();
}

// A cube core and its two vector cores hand data over by mode 2, both ways.
TEST_F(CrossCoreTest, CubeAndVectorCoresOfABlock) {
  const auto kernel = [&](bool answer) {
    return [&, answer] {
      if ASCEND_IS_AIV {
        EXPECT_EQ(GetBlockIdx() / 2, GetBlockIdx() / GetTaskRatio());
        Store(GetBlockIdx() * 16, 2.0f, false);
        CrossCoreSetFlag<2, PIPE_MTE3>(1);
        if (answer) CrossCoreWaitFlag<2, PIPE_MTE2>(2);
        Load(1024 + GetBlockIdx() / 2 * 16);
      }
      if ASCEND_IS_AIC {
        const LocalTensor<float> l1(TPosition::A1, 0, 32);
        CrossCoreWaitFlag<2, PIPE_MTE2>(1);
        DataCopy(l1, Floats()[static_cast<uint64_t>(GetBlockIdx()) * 32], 32);
        SetFlag<HardEvent::MTE2_MTE3>(0);
        WaitFlag<HardEvent::MTE2_MTE3>(0);
        DataCopy(Floats()[1024 + static_cast<uint64_t>(GetBlockIdx()) * 16], l1, 16);
        if (answer) CrossCoreSetFlag<2, PIPE_MTE3>(2);
      }
    };
  };
  LaunchResult result = Run(KernelType::kMixAic1_2, 3, kernel(true));
  EXPECT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(floats_[1024], 2.0f);
  EXPECT_TRUE(Run(KernelType::kMixAic1_2, 3, kernel(false)).report.Has(ErrorKind::kGmRace));
}

TEST_F(CrossCoreTest, ADeadlockEndsAndSaysWhoWaits) {
  const SimReport report = Run(KernelType::kMixAiv1_0, 3, [&] {
                             if (GetBlockIdx() != 1) CrossCoreSetFlag<0, PIPE_MTE3>(4);
                             CrossCoreWaitFlag<0, PIPE_MTE2>(4);
                           }).report;
  ASSERT_TRUE(report.Has(ErrorKind::kDeadlock));
  EXPECT_NE(report.errors[0].message.find("cross-core flag 4"), std::string::npos);
}

TEST_F(CrossCoreTest, ADeadlockEndsWhenTheLastRunnerLeaves) {
  const SimReport report = Run(KernelType::kMixAiv1_0, 3, [&] {
                             if (GetBlockIdx() == 2) return;
                             CrossCoreSetFlag<0, PIPE_MTE3>(4);
                             CrossCoreWaitFlag<0, PIPE_MTE2>(4);
                           }).report;
  EXPECT_TRUE(report.Has(ErrorKind::kDeadlock));
  EXPECT_EQ(report.error_count, 2) << report.ToString();
}

TEST_F(CrossCoreTest, ACounterHoldsFifteen) {
  const auto kernel = [](int sets) {
    return [sets] {
      for (int i = 0; i < sets; ++i) CrossCoreSetFlag<0, PIPE_MTE3>(4);
      for (int i = 0; i < sets; ++i) CrossCoreWaitFlag<0, PIPE_MTE2>(4);
    };
  };
  EXPECT_TRUE(Run(KernelType::kMixAiv1_0, 1, kernel(15)).report.ok());
  EXPECT_TRUE(Run(KernelType::kMixAiv1_0, 1, kernel(16)).report.Has(ErrorKind::kCounterOverflow));
  EXPECT_TRUE(Run(KernelType::kMixAiv1_0, 1, [] {
                CrossCoreSetFlag<0, PIPE_MTE3>(4);
              }).report.Has(ErrorKind::kFlagLeftOver));
}

TEST_F(CrossCoreTest, TheScalarCacheMustBeCleaned) {
  const auto kernel = [&](bool clean) {
    return [&, clean] {
      GlobalTensor<int32_t> to;
      to.SetGlobalBuffer(ints_.data());
      to.SetValue(5, 7);
      if (clean) {
        DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(to);
      }
    };
  };
  EXPECT_TRUE(Run(KernelType::kAivOnly, 1, kernel(true)).report.ok());
  EXPECT_TRUE(Run(KernelType::kAivOnly, 1, kernel(false)).report.Has(ErrorKind::kScalarCache));
}

TEST_F(CrossCoreTest, ALineReadBeforeIsStaleAfterAWrite) {
  const auto kernel = [&](bool invalidate) {
    return [&, invalidate] {
      (void)Floats().GetValue(0);
      Store(0, 1.0f, false);
      SetFlag<HardEvent::MTE3_S>(1);
      WaitFlag<HardEvent::MTE3_S>(1);
      if (invalidate) {
        DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(Floats());
      }
      EXPECT_EQ(Floats().GetValue(0), 1.0f);
    };
  };
  EXPECT_TRUE(Run(KernelType::kAivOnly, 1, kernel(true)).report.ok());
  EXPECT_TRUE(Run(KernelType::kAivOnly, 1, kernel(false)).report.Has(ErrorKind::kScalarCache));
}

}  // namespace
}  // namespace lorica::ascend
