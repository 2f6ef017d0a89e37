// What the cube and Fixpipe do beside the plain product: GEMV, bias, transposed loads, row
// offsets, NZ targets, atomics, fp32.
#include <gtest/gtest.h>

#include "lorica/kernels/ascend/sim/test_kernels.h"

namespace lorica::ascend {
namespace {

using namespace AscendC;  // NOLINT: the test is a list of its calls

class FixpipeTest : public ::testing::Test {
 protected:
  LaunchResult Run(const std::function<void()>& kernel) {
    auto sim = OpenSim();
    AddVector(sim.get(), "x", &x_);
    AddVector(sim.get(), "w", &w_);
    AddVector(sim.get(), "y", &y_);
    AddVector(sim.get(), "z", &z_);
    AddVector(sim.get(), "bias", &bias_);
    return sim->Launch({}, kernel);
  }
  template <typename T>
  static GlobalTensor<T> Gm(std::vector<T>* values) {
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(values->data(), values->size());
    return tensor;
  }
  // x [32][16] and w [32][16] in L0, ready for M.
  void LoadBoth(bool transpose = false) {
    const LocalTensor<half> x1(TPosition::A1, 0, 512), w1(TPosition::B1, 1024, 512);
    DataCopy(x1, Gm(&x_), Nd2NzParams(1, 32, 16, 0, 16, 32, 1, 0));
    DataCopy(w1, Gm(&w_), Nd2NzParams(1, 32, 16, 0, 16, 32, 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LoadData(a_, x1, LoadData2DParams(0, 2, 1, 0, 0, transpose, 0));
    LoadData(b_, w1, LoadData2DParams(0, 2, 1, 0, 0, false, 0));
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
  }
  static void ToFix() {
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
  }
  FixpipeParamsV220 Fix(int n, int m, int src, int dst, QuantMode_t mode) {
    FixpipeParamsV220 fix(static_cast<uint16_t>(n), static_cast<uint16_t>(m),
                          static_cast<uint16_t>(src), static_cast<uint32_t>(dst), false);
    fix.quantPre = mode;
    return fix;
  }
  float Dot(size_t row, size_t column) const {
    float sum = 0;
    for (size_t k = 0; k < 16; ++k) sum += x_[row * 16 + k] * w_[column * 16 + k];
    return sum;
  }

  const LocalTensor<half> a_{TPosition::A2, 0, 512}, b_{TPosition::B2, 0, 512};
  const LocalTensor<float> c_{TPosition::CO1, 0, 1024};
  std::vector<half> x_ = Filled<half>(512, 1), w_ = Filled<half>(512, 2),
                    y_ = std::vector<half>(2048, half(1.0f));
  std::vector<float> z_ = std::vector<float>(2048, 0.5f), bias_ = Filled<float>(32, 3);
};

TEST_F(FixpipeTest, RowOffsetsAndLeadingDimension) {
  const LaunchResult result = Run([&] {
    LoadBoth();
    Mmad(c_, a_, b_, MmadParams(32, 32, 16, 0, false, true));
    ToFix();
    // Rows 5..7, to y with 64 elements a row.
    Fixpipe<half, float, CFG_ROW_MAJOR>(Gm(&y_)[128], c_[5 * 16],
                                        Fix(32, 3, 32, 64, QuantMode_t::F322F16));
  });
  ASSERT_TRUE(result.report.ok()) << result.report.ToString();
  for (size_t r = 0; r < 3; ++r) {
    for (size_t j = 0; j < 64; ++j) {
      EXPECT_EQ(y_[128 + r * 64 + j], j < 32 ? half(Dot(5 + r, j)) : half(1.0f));
    }
  }
}

TEST_F(FixpipeTest, FloatOutNzAndAtomicAdd) {
  const LaunchResult result = Run([&] {
    LoadBoth();
    Mmad(c_, a_, b_, MmadParams(32, 32, 16, 0, false, true));
    ToFix();
    Fixpipe<float, float, CFG_NZ>(Gm(&z_), c_, Fix(32, 32, 32, 64, QuantMode_t::NoQuant));
    SetAtomicAdd<half>();
    Fixpipe<half, float, CFG_ROW_MAJOR>(Gm(&y_), c_, Fix(32, 32, 32, 32, QuantMode_t::F322F16));
    SetAtomicNone();
  });
  ASSERT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(z_[512 + 3 * 16 + 2], Dot(3, 18));
  EXPECT_EQ(y_[3 * 32 + 18], half(half(Dot(3, 18)) + 1.0f));
}

TEST_F(FixpipeTest, TheCopyFormEqualsFixpipe) {
  const LaunchResult result = Run([&] {
    LoadBoth();
    Mmad(c_, a_, b_, MmadParams(32, 32, 16, 0, false, true));
    ToFix();
    DataCopyCO12DstParams copy;
    copy.nSize = 32;
    copy.mSize = 32;
    copy.srcStride = 32;
    copy.dstStride = 32;
    copy.quantPre = QuantMode_t::F322F16;
    copy.nz2ndEn = true;
    DataCopy(Gm(&y_), c_, copy);
    const LocalTensor<half> l1(TPosition::A1, 4096, 1024);
    copy.nz2ndEn = false;
    DataCopy(l1, c_, copy);
    SetFlag<HardEvent::FIX_MTE3>(0);
    WaitFlag<HardEvent::FIX_MTE3>(0);
    DataCopy(Gm(&y_)[1024], l1, 1024);
  });
  ASSERT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(y_[7 * 32 + 20], half(Dot(7, 20)));
  EXPECT_EQ(y_[1024 + 512 + 7 * 16 + 4], half(Dot(7, 20)));
}

TEST_F(FixpipeTest, BiasComesFromTheTable) {
  const LaunchResult result = Run([&] {
    const LocalTensor<float> l1(TPosition::C1, 8192, 32), table(TPosition::C2, 0, 32);
    DataCopy(l1, Gm(&bias_), 32);
    LoadBoth();
    DataCopy(table, l1, DataCopyParams(1, 2, 0, 0));
    SetFlag<HardEvent::MTE1_M>(1);
    WaitFlag<HardEvent::MTE1_M>(1);
    Mmad(c_, a_, b_, table, MmadParams(32, 32, 16, 0, true, false));
    ToFix();
    Fixpipe<float, float, CFG_ROW_MAJOR>(Gm(&z_), c_, Fix(32, 32, 32, 32, QuantMode_t::NoQuant));
  });
  ASSERT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(z_[9 * 32 + 21], Dot(9, 21) + bias_[21]);
}

// With m == 1 the unit takes A as 16 packed elements, which here are row 0's by the layout; with a
// k of 32 they are rows 0 and 1, not row 0: the trap.
TEST_F(FixpipeTest, OneRowIsAGemv) {
  const LaunchResult result = Run([&] {
    LoadBoth();
    Mmad(c_, a_, b_, MmadParams(1, 16, 32, 0, false, true));
    ToFix();
    Fixpipe<float, float, CFG_ROW_MAJOR>(Gm(&z_), c_, Fix(16, 1, 16, 16, QuantMode_t::NoQuant));
  });
  ASSERT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(result.report.gemv_mmads, 1);
  float packed = 0;
  for (size_t k = 0; k < 16; ++k) {
    packed += x_[k] * w_[2 * 16 + k] + x_[16 + k] * w_[(16 + 2) * 16 + k];
  }
  EXPECT_EQ(z_[2], packed);
}

TEST_F(FixpipeTest, ATransposedLoad) {
  const LaunchResult result = Run([&] {
    LoadBoth(true);
    Mmad(c_, a_, b_, MmadParams(16, 16, 16, 0, false, true));
    ToFix();
    Fixpipe<float, float, CFG_ROW_MAJOR>(Gm(&z_), c_, Fix(16, 16, 16, 16, QuantMode_t::NoQuant));
  });
  ASSERT_TRUE(result.report.ok()) << result.report.ToString();
  float sum = 0;
  for (size_t k = 0; k < 16; ++k) sum += x_[k * 16 + 3] * w_[5 * 16 + k];
  EXPECT_EQ(z_[3 * 16 + 5], sum);
}

TEST_F(FixpipeTest, AtomicsRefuseAnotherType) {
  const LaunchResult result = Run([&] {
    LoadBoth();
    Mmad(c_, a_, b_, MmadParams(32, 32, 16, 0, false, true));
    ToFix();
    SetAtomicAdd<float>();
    Fixpipe<half, float, CFG_ROW_MAJOR>(Gm(&y_), c_, Fix(32, 32, 32, 32, QuantMode_t::F322F16));
    SetAtomicNone();
  });
  EXPECT_TRUE(result.report.Has(ErrorKind::kBadArgument));
}

// One core's atomics on one place keep their order by themselves.
TEST_F(FixpipeTest, AtomicsOfOneCoreNeedNoBarrier) {
  const LaunchResult result = Run([&] {
    LoadBoth();
    Mmad(c_, a_, b_, MmadParams(32, 32, 16, 0, false, true));
    ToFix();
    SetAtomicAdd<float>();
    for (int i = 0; i < 2; ++i) {
      Fixpipe<float, float, CFG_ROW_MAJOR>(Gm(&z_), c_, Fix(32, 32, 32, 32, QuantMode_t::NoQuant));
    }
    SetAtomicNone();
  });
  EXPECT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(z_[3 * 32 + 18], 0.5f + 2 * Dot(3, 18));
}

// Two stores of one core to one place need their order.
TEST_F(FixpipeTest, TwoStoresToOnePlace) {
  const auto kernel = [&](bool barrier) {
    return [&, barrier] {
      LoadBoth();
      Mmad(c_, a_, b_, MmadParams(32, 32, 16, 0, false, true));
      ToFix();
      const auto fix = Fix(32, 32, 32, 32, QuantMode_t::F322F16);
      Fixpipe<half, float, CFG_ROW_MAJOR>(Gm(&y_), c_, fix);
      if (barrier) PipeBarrier<PIPE_FIX>();
      Fixpipe<half, float, CFG_ROW_MAJOR>(Gm(&y_), c_, fix);
    };
  };
  EXPECT_TRUE(Run(kernel(true)).report.ok());
  EXPECT_TRUE(Run(kernel(false)).report.Has(ErrorKind::kWriteAfterWrite));
}

}  // namespace
}  // namespace lorica::ascend
