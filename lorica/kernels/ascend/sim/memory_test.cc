// Bounds, alignment, capacity, limits and paths: one minimal program an error.
#include <gtest/gtest.h>

#include "lorica/kernels/ascend/sim/test_kernels.h"

namespace lorica::ascend {
namespace {

using AscendC::DataCopy;
using AscendC::GlobalTensor;
using AscendC::LocalTensor;
using AscendC::TPosition;

class MemoryTest : public ::testing::Test {
 protected:
  SimReport Run(const std::function<void()>& kernel, KernelType type = KernelType::kAicOnly,
                const std::string& soc = "910B3") {
    auto sim = OpenSim(soc);
    AddVector(sim.get(), "data", &data_);
    LaunchOptions options;
    options.type = type;
    return sim->Launch(options, kernel).report;
  }
  GlobalTensor<half> Gm(uint64_t elements = 0) {
    GlobalTensor<half> tensor;
    tensor.SetGlobalBuffer(data_.data(), elements);
    return tensor;
  }
  void ExpectOnly(const SimReport& report, ErrorKind kind, const std::string& words) {
    ASSERT_EQ(report.error_count, 1) << report.ToString();
    EXPECT_EQ(report.errors[0].kind, kind) << report.ToString();
    EXPECT_NE(report.errors[0].message.find(words), std::string::npos) << report.ToString();
  }

  std::vector<half> data_ = Filled<half>(4096, 1);
};

TEST_F(MemoryTest, GmOutOfBounds) {
  const LocalTensor<half> l1(TPosition::A1, 0, 4096);
  ExpectOnly(Run([&] { DataCopy(l1, Gm()[4080], 32); }), ErrorKind::kOutOfBounds, "buffer's end");
  ExpectOnly(Run([&] { DataCopy(l1, Gm(64), 128); }), ErrorKind::kOutOfBounds, "tensor's end");
  ExpectOnly(Run([&] { DataCopy(l1, Gm(64)[64], 16); }), ErrorKind::kOutOfBounds, "MTE2 #1");
  ExpectOnly(Run([&] { DataCopy(l1, Gm()[100000], 16); }), ErrorKind::kOutOfBounds,
             "no registered buffer");
}

TEST_F(MemoryTest, LocalOutOfBoundsAndOverCapacity) {
  ExpectOnly(Run([&] { DataCopy(LocalTensor<half>(TPosition::A1, 0, 16), Gm(), 32); }),
             ErrorKind::kOutOfBounds, "tensor's end");
  ExpectOnly(Run([&] { DataCopy(LocalTensor<half>(TPosition::A1, 524000, 1024), Gm(), 32); }),
             ErrorKind::kOverCapacity, "524032");
  ExpectOnly(Run([&] { DataCopy(LocalTensor<half>(TPosition::VECIN, 196336, 64), Gm(), 32); },
                 KernelType::kAivOnly),
             ErrorKind::kOverCapacity, "UB");
}

TEST_F(MemoryTest, Misaligned) {
  ExpectOnly(Run([&] { DataCopy(LocalTensor<half>(TPosition::A1, 16, 64), Gm(), 32); }),
             ErrorKind::kMisaligned, "multiple of 32");
  ExpectOnly(Run([&] {
               const LocalTensor<half> l1(TPosition::A1, 0, 1024);
               DataCopy(l1, Gm(), 1024);
               AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(0);
               AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(0);
               AscendC::LoadData(LocalTensor<half>(TPosition::A2, 256, 1024), l1,
                                 AscendC::LoadData2DParams(0, 1, 1, 0, 0, false, 0));
             }),
             ErrorKind::kMisaligned, "multiple of 512");
  ExpectOnly(Run([&] { DataCopy(LocalTensor<half>(TPosition::A1, 0, 64), Gm(), 7); }),
             ErrorKind::kBadArgument, "32-byte blocks");
}

TEST_F(MemoryTest, LimitsOfInstructions) {
  const LocalTensor<half> l1(TPosition::A1, 0, 65536);
  ExpectOnly(Run([&] { DataCopy(l1, Gm(), AscendC::DataCopyParams(0, 1, 0, 0)); }),
             ErrorKind::kBadArgument, "1..4095");
  ExpectOnly(Run([&] { DataCopy(l1, Gm(), AscendC::Nd2NzParams(1, 0, 16, 0, 16, 16, 1, 0)); }),
             ErrorKind::kBadArgument, "nValue");
  ExpectOnly(Run([&] {
               AscendC::Mmad(LocalTensor<float>(TPosition::CO1, 0, 256),
                             LocalTensor<half>(TPosition::A2, 0, 256),
                             LocalTensor<half>(TPosition::B2, 0, 256),
                             AscendC::MmadParams(16, 16, 4096, 0, false, true));
             }),
             ErrorKind::kBadArgument, "4095");
  ExpectOnly(Run([&] {
               GlobalTensor<half> y = Gm();
               AscendC::FixpipeParamsV220 fix(24, 16, 16, 32, false);
               fix.quantPre = QuantMode_t::F322F16;
               AscendC::Fixpipe<half, float, AscendC::CFG_ROW_MAJOR>(
                   y, LocalTensor<float>(TPosition::CO1, 0, 512), fix);
             }),
             ErrorKind::kBadArgument, "nSize 24");
}

TEST_F(MemoryTest, PathsThatAnArchitectureLacks) {
  const LocalTensor<half> l1(TPosition::A1, 0, 64);
  const LocalTensor<half> ub(TPosition::VECIN, 0, 64);
  ExpectOnly(Run([&] { DataCopy(l1, ub, 64); }), ErrorKind::kNoPath, "UB -> L1");
  ExpectOnly(Run([&] { DataCopy(ub, Gm(), 64); }), ErrorKind::kNoPath, "other kind of core");
  ExpectOnly(Run([&] {
               AscendC::Fixpipe<float, float, AscendC::CFG_NZ>(
                   LocalTensor<float>(TPosition::A1, 0, 256),
                   LocalTensor<float>(TPosition::CO1, 0, 256),
                   AscendC::FixpipeParamsV220(16, 16, 16, 32, false));
             }),
             ErrorKind::kNoPath, "cast to 16 bits");
  ExpectOnly(Run([&] { AscendC::CrossCoreSetFlag<0, PIPE_FIX>(1); }), ErrorKind::kNoPath,
             "kernel type");
  ExpectOnly(Run(
                 [&] {
                   GlobalTensor<half> y = Gm();
                   AscendC::FixpipeParamsV220 fix(16, 16, 16, 16, false);
                   fix.quantPre = QuantMode_t::F322F16;
                   AscendC::Fixpipe<half, float, AscendC::CFG_ROW_MAJOR>(
                       y, LocalTensor<float>(TPosition::CO1, 0, 512), fix);
                 },
                 KernelType::kAicOnly, "310P3"),
             ErrorKind::kNoPath, "2002 has no Fixpipe");
}

TEST_F(MemoryTest, UnknownSocIsRefusedWithTheList) {
  const auto sim = Simulator::Open("910Z");
  ASSERT_FALSE(sim.ok());
  EXPECT_NE(sim.status().message().find("910B1, 910B3, 310P3"), std::string::npos)
      << sim.status().message();
}

TEST_F(MemoryTest, MoreBlocksThanCoresAreRefused) {
  auto sim = OpenSim();
  LaunchOptions options;
  options.blocks = 21;
  EXPECT_TRUE(sim->Launch(options, [] {}).report.Has(ErrorKind::kBadArgument));
}

// What nobody wrote may lie in padding, but may not leave the core.
TEST_F(MemoryTest, UninitialisedRowsAreAnErrorOnlyWhereTheyLeave) {
  const auto run = [&](int32_t rows_out) {
    return Run([&, rows_out] {
      using namespace AscendC;
      const LocalTensor<half> x1(TPosition::A1, 0, 256), w1(TPosition::B1, 512, 256);
      const LocalTensor<half> x0(TPosition::A2, 0, 256), w0(TPosition::B2, 0, 256);
      const LocalTensor<float> c(TPosition::CO1, 0, 256);
      DataCopy(x1, Gm(), Nd2NzParams(1, 3, 16, 0, 16, 16, 1, 0));  // 3 of 16 rows
      DataCopy(w1, Gm()[1024], Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
      SetFlag<HardEvent::MTE2_MTE1>(0);
      WaitFlag<HardEvent::MTE2_MTE1>(0);
      LoadData(x0, x1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      LoadData(w0, w1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      SetFlag<HardEvent::MTE1_M>(0);
      WaitFlag<HardEvent::MTE1_M>(0);
      Mmad(c, x0, w0, MmadParams(16, 16, 16, 0, false, true));
      SetFlag<HardEvent::M_FIX>(0);
      WaitFlag<HardEvent::M_FIX>(0);
      FixpipeParamsV220 fix(16, rows_out, 16, 16, false);
      fix.quantPre = QuantMode_t::F322F16;
      Fixpipe<half, float, CFG_ROW_MAJOR>(Gm()[2048], c, fix);
    });
  };
  EXPECT_TRUE(run(3).ok());
  const SimReport report = run(4);
  EXPECT_TRUE(report.Has(ErrorKind::kUninitialised)) << report.ToString();
}

TEST_F(MemoryTest, UninitialisedScalarsAndWorkspace) {
  EXPECT_TRUE(
      Run([] { LocalTensor<float>(TPosition::VECIN, 0, 8).GetValue(0); }, KernelType::kAivOnly)
          .Has(ErrorKind::kUninitialised));
  auto sim = OpenSim();
  AddVector(sim.get(), "workspace", &data_, {/*initialised=*/false, /*in_l2=*/false});
  LaunchOptions options;
  options.type = KernelType::kAivOnly;
  EXPECT_TRUE(
      sim->Launch(options, [&] { Gm().GetValue(5); }).report.Has(ErrorKind::kUninitialised));
}

}  // namespace
}  // namespace lorica::ascend
