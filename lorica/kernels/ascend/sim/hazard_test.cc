// Flags and barriers inside one core: a correct chain through L1, L0 and back to L1, and that chain
// with one line missing at a time.
#include <gtest/gtest.h>

#include "lorica/kernels/ascend/sim/test_kernels.h"

namespace lorica::ascend {
namespace {

using namespace AscendC;  // NOLINT: the test is a list of its calls

// Steps of the chain that a mutation leaves out, by number.
struct Without {
  int step = -1;
  bool Has(int s) const { return s != step; }
};

// s = x * a^T (two k tiles, small Mmads), cast to half into L1, y = s * b^T.
struct Chain {
  half* x;  // [16][64]
  half* a;  // [16][64]
  half* b;  // [32][16]
  half* y;  // [16][32]
  Without without;

  void operator()() const {
    GlobalTensor<half> gx, ga, gb, gy;
    gx.SetGlobalBuffer(x, 16 * 64);
    ga.SetGlobalBuffer(a, 16 * 64);
    gb.SetGlobalBuffer(b, 32 * 16);
    gy.SetGlobalBuffer(y, 16 * 32);
    const LocalTensor<half> x1(TPosition::A1, 0, 512), a1(TPosition::B1, 1024, 512);
    const LocalTensor<half> b1(TPosition::B1, 2048, 512), s1(TPosition::A1, 4096, 256);
    const LocalTensor<half> l0a(TPosition::A2, 0, 512), l0b(TPosition::B2, 0, 512);
    const LocalTensor<float> s(TPosition::CO1, 0, 256), c(TPosition::CO1, 1024, 512);
    const Without& w = without;
    DataCopy(b1, gb, Nd2NzParams(1, 32, 16, 0, 16, 32, 1, 0));
    for (int k = 0; k < 2; ++k) {
      if (k == 1 && w.Has(0)) WaitFlag<HardEvent::MTE1_MTE2>(0);
      DataCopy(x1, gx[k * 32], Nd2NzParams(1, 16, 32, 0, 64, 16, 1, 0));
      DataCopy(a1, ga[k * 32], Nd2NzParams(1, 16, 32, 0, 64, 16, 1, 0));
      if (w.Has(1)) SetFlag<HardEvent::MTE2_MTE1>(0);
      if (w.Has(1)) WaitFlag<HardEvent::MTE2_MTE1>(0);
      if (k == 1 && w.Has(2)) WaitFlag<HardEvent::M_MTE1>(0);
      LoadData(l0a, x1, LoadData2DParams(0, 2, 1, 0, 0, false, 0));
      LoadData(l0b, a1, LoadData2DParams(0, 2, 1, 0, 0, false, 0));
      if (k == 0 && w.Has(0)) SetFlag<HardEvent::MTE1_MTE2>(0);
      if (w.Has(3)) SetFlag<HardEvent::MTE1_M>(0);
      if (w.Has(3)) WaitFlag<HardEvent::MTE1_M>(0);
      Mmad(s, l0a, l0b, MmadParams(16, 16, 32, 0, false, k == 0));
      if (k == 0 && w.Has(4)) PipeBarrier<PIPE_M>();
      if (k == 0 && w.Has(2)) SetFlag<HardEvent::M_MTE1>(0);
    }
    if (w.Has(5)) SetFlag<HardEvent::M_FIX>(0);
    if (w.Has(5)) WaitFlag<HardEvent::M_FIX>(0);
    FixpipeParamsV220 cast(16, 16, 16, 16, false);
    cast.quantPre = QuantMode_t::F322F16;
    Fixpipe<half, float, CFG_NZ>(s1, s, cast);
    if (w.Has(6)) SetFlag<HardEvent::FIX_MTE1>(0);
    if (w.Has(6)) WaitFlag<HardEvent::FIX_MTE1>(0);
    if (w.Has(7)) SetFlag<HardEvent::M_MTE1>(1);
    if (w.Has(7)) WaitFlag<HardEvent::M_MTE1>(1);
    LoadData(l0a, s1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    LoadData(l0b, b1, LoadData2DParams(0, 2, 1, 0, 0, false, 0));
    if (w.Has(8)) SetFlag<HardEvent::MTE1_M>(1);
    if (w.Has(8)) WaitFlag<HardEvent::MTE1_M>(1);
    Mmad(c, l0a, l0b, MmadParams(16, 32, 16, 0, false, true));
    if (w.Has(9)) SetFlag<HardEvent::M_FIX>(1);
    if (w.Has(9)) WaitFlag<HardEvent::M_FIX>(1);
    FixpipeParamsV220 out(32, 16, 16, 32, false);
    out.quantPre = QuantMode_t::F322F16;
    Fixpipe<half, float, CFG_ROW_MAJOR>(gy, c, out);
  }
};

class HazardTest : public ::testing::Test {
 protected:
  LaunchResult RunChain(int without) {
    auto sim = OpenSim();
    AddVector(sim.get(), "x", &x_);
    AddVector(sim.get(), "a", &a_);
    AddVector(sim.get(), "b", &b_);
    AddVector(sim.get(), "y", &y_);
    return sim->Launch({}, Chain{x_.data(), a_.data(), b_.data(), y_.data(), {without}});
  }
  SimReport Run(const std::function<void()>& kernel, KernelType type = KernelType::kAicOnly) {
    auto sim = OpenSim();
    AddVector(sim.get(), "x", &x_);
    AddVector(sim.get(), "y", &y_);
    LaunchOptions options;
    options.type = type;
    return sim->Launch(options, kernel).report;
  }

  std::vector<half> x_ = Filled<half>(16 * 64, 1), a_ = Filled<half>(16 * 64, 2),
                    b_ = Filled<half>(32 * 16, 3), y_ = std::vector<half>(16 * 32);
};

TEST_F(HazardTest, TheChainIsRightAndSilent) {
  const LaunchResult result = RunChain(-1);
  ASSERT_TRUE(result.report.ok()) << result.report.ToString();
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 32; ++j) {
      float y = 0;
      for (size_t r = 0; r < 16; ++r) {
        float s = 0;
        for (size_t k = 0; k < 64; ++k) s += x_[i * 64 + k] * a_[r * 64 + k];
        y += half(s) * b_[j * 16 + r];
      }
      EXPECT_EQ(y_[i * 32 + j], half(y));
    }
  }
}

TEST_F(HazardTest, EveryMissingPairIsFoundWithTheSameNumbersComing) {
  RunChain(-1);
  const std::vector<half> right = y_;
  const ErrorKind expected[] = {ErrorKind::kWriteAfterRead, ErrorKind::kReadAfterWrite,
                                ErrorKind::kWriteAfterRead, ErrorKind::kReadAfterWrite,
                                ErrorKind::kSmallMmad,      ErrorKind::kReadAfterWrite,
                                ErrorKind::kReadAfterWrite, ErrorKind::kWriteAfterRead,
                                ErrorKind::kReadAfterWrite, ErrorKind::kReadAfterWrite};
  for (int step = 0; step < 10; ++step) {
    // Step 7 is implied: the cast into L1 followed the Mmad, and the load follows the cast.
    const SimReport report = RunChain(step).report;
    if (step == 7) {
      EXPECT_TRUE(report.ok()) << report.ToString();
      continue;
    }
    EXPECT_TRUE(report.Has(expected[step])) << "step " << step << ": " << report.ToString();
    for (size_t i = 0; i < y_.size(); ++i) EXPECT_EQ(y_[i].bits, right[i].bits);
  }
}

TEST_F(HazardTest, MessagesNameThePipeTheRangeAndBothInstructions) {
  const SimReport report = RunChain(1).report;
  ASSERT_FALSE(report.ok());
  const std::string& text = report.errors[0].message;
  EXPECT_NE(text.find("read after write of L1 ["), std::string::npos) << text;
  EXPECT_NE(text.find("MTE1 #"), std::string::npos) << text;
  EXPECT_NE(text.find("LoadData (line "), std::string::npos) << text;
  EXPECT_NE(text.find("after MTE2 #2 DataCopy nd2nz"), std::string::npos) << text;
}

TEST_F(HazardTest, FlagsAreSetOnceAndTaken) {
  EXPECT_TRUE(Run([] {
                SetFlag<HardEvent::MTE2_MTE1>(3);
                SetFlag<HardEvent::MTE2_MTE1>(3);
                WaitFlag<HardEvent::MTE2_MTE1>(3);
              }).Has(ErrorKind::kDoubleSet));
  EXPECT_TRUE(Run([] { WaitFlag<HardEvent::MTE2_MTE1>(3); }).Has(ErrorKind::kWaitWithoutSet));
  EXPECT_TRUE(Run([] { SetFlag<HardEvent::MTE2_MTE1>(3); }).Has(ErrorKind::kFlagLeftOver));
  EXPECT_TRUE(Run([] { SetFlag<HardEvent::MTE2_MTE1>(8); }).Has(ErrorKind::kBadArgument));
  EXPECT_TRUE(Run([] { PipeBarrier<PIPE_S>(); }).Has(ErrorKind::kBadArgument));
}

TEST_F(HazardTest, OnePipeNeedsABarrierBetweenAWriteAndItsUse) {
  const auto kernel = [](bool barrier) {
    return [barrier] {
      const LocalTensor<float> u(TPosition::VECCALC, 0, 64), v(TPosition::VECCALC, 256, 64);
      Duplicate(u, 1.0f, 64);
      if (barrier) PipeBarrier<PIPE_V>();
      Adds(v, u, 1.0f, 64);
    };
  };
  EXPECT_TRUE(Run(kernel(true), KernelType::kAivOnly).ok());
  EXPECT_TRUE(Run(kernel(false), KernelType::kAivOnly).Has(ErrorKind::kReadAfterWrite));
  auto sim = OpenSim();
  LaunchOptions options;
  options.type = KernelType::kAivOnly;
  options.auto_sync = true;
  EXPECT_TRUE(sim->Launch(options, kernel(false)).report.ok());
}

TEST_F(HazardTest, AScalarReadNeedsItsFlag) {
  const auto kernel = [this](bool flag) {
    return [this, flag] {
      GlobalTensor<half> x;
      x.SetGlobalBuffer(x_.data());
      const LocalTensor<half> u(TPosition::VECIN, 0, 16);
      DataCopy(u, x, 16);
      if (flag) SetFlag<HardEvent::MTE2_S>(0);
      if (flag) WaitFlag<HardEvent::MTE2_S>(0);
      EXPECT_EQ(u.GetValue(3), x_[3]);
    };
  };
  EXPECT_TRUE(Run(kernel(true), KernelType::kAivOnly).ok());
  EXPECT_TRUE(Run(kernel(false), KernelType::kAivOnly).Has(ErrorKind::kReadAfterWrite));
}

TEST_F(HazardTest, UnitFlagsReplaceTheFlagBetweenCubeAndFixpipe) {
  const auto kernel = [this](uint8_t unit) {
    return [this, unit] {
      GlobalTensor<half> x, y;
      x.SetGlobalBuffer(x_.data());
      y.SetGlobalBuffer(y_.data());
      const LocalTensor<half> l1(TPosition::A1, 0, 256), a(TPosition::A2, 0, 256),
          b(TPosition::B2, 0, 256);
      const LocalTensor<float> c(TPosition::CO1, 0, 256);
      DataCopy(l1, x, Nd2NzParams(1, 16, 16, 0, 64, 16, 1, 0));
      SetFlag<HardEvent::MTE2_MTE1>(0);
      WaitFlag<HardEvent::MTE2_MTE1>(0);
      LoadData(a, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      LoadData(b, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      SetFlag<HardEvent::MTE1_M>(0);
      WaitFlag<HardEvent::MTE1_M>(0);
      Mmad(c, a, b, MmadParams(16, 16, 16, unit, false, true));
      FixpipeParamsV220 fix(16, 16, 16, 16, false);
      fix.quantPre = QuantMode_t::F322F16;
      fix.unitFlag = unit;
      Fixpipe<half, float, CFG_ROW_MAJOR>(y, c, fix);
    };
  };
  EXPECT_TRUE(Run(kernel(3)).ok());
  EXPECT_TRUE(Run(kernel(0)).Has(ErrorKind::kReadAfterWrite));
}

// A new small product over an old one needs the barrier as well; a large one (ten tiles) does not.
TEST_F(HazardTest, SmallProductsNeedABarrierEvenWhenTheyStartAnew) {
  const auto kernel = [this](uint16_t n, bool barrier, bool fresh) {
    return [this, n, barrier, fresh] {
      GlobalTensor<half> x;
      x.SetGlobalBuffer(x_.data());
      const LocalTensor<half> a(TPosition::A2, 0, 256), b(TPosition::B2, 0, 256 * 10);
      LoadData(a, x, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      LoadData(b, x, LoadData2DParams(0, 10, 0, 0, 0, false, 0));
      SetFlag<HardEvent::MTE2_M>(0);
      WaitFlag<HardEvent::MTE2_M>(0);
      const LocalTensor<float> c(TPosition::CO1, 0, 2560);
      Mmad(c, a, b, MmadParams(16, n, 16, 0, false, true));
      if (barrier) PipeBarrier<PIPE_M>();
      Mmad(c, a, b, MmadParams(16, n, 16, 0, false, fresh));
    };
  };
  for (const bool fresh : {false, true}) {
    EXPECT_TRUE(Run(kernel(144, false, fresh)).Has(ErrorKind::kSmallMmad));
    EXPECT_TRUE(Run(kernel(144, true, fresh)).ok());
    EXPECT_TRUE(Run(kernel(160, false, fresh)).ok());
  }
}

TEST_F(HazardTest, GmBetweenThePipesOfOneCore) {
  const auto kernel = [this](bool flag) {
    return [this, flag] {
      GlobalTensor<half> x, y;
      x.SetGlobalBuffer(x_.data());
      y.SetGlobalBuffer(y_.data());
      const LocalTensor<half> u(TPosition::VECIN, 0, 64), v(TPosition::VECIN, 128, 64);
      DataCopy(u, x, 64);
      SetFlag<HardEvent::MTE2_MTE3>(0);
      WaitFlag<HardEvent::MTE2_MTE3>(0);
      DataCopy(y, u, 64);
      if (flag) SetFlag<HardEvent::MTE3_MTE2>(0);
      if (flag) WaitFlag<HardEvent::MTE3_MTE2>(0);
      DataCopy(v, y, 64);
    };
  };
  EXPECT_TRUE(Run(kernel(true), KernelType::kAivOnly).ok());
  EXPECT_TRUE(Run(kernel(false), KernelType::kAivOnly).Has(ErrorKind::kReadAfterWrite));
}

}  // namespace
}  // namespace lorica::ascend
