// The vector unit and queues: results, masks, repeats, limits, the protocol.
#include <gtest/gtest.h>

#include "lorica/kernels/ascend/sim/test_kernels.h"

namespace lorica::ascend {
namespace {

using namespace AscendC;  // NOLINT: the test is a list of its calls

class VectorTest : public ::testing::Test {
 protected:
  SimReport Run(const std::function<void()>& kernel, const std::string& soc = "910B3") {
    auto sim = OpenSim(soc);
    AddVector(sim.get(), "in", &in_);
    AddVector(sim.get(), "out", &out_);
    AddVector(sim.get(), "halves", &halves_);
    LaunchOptions options;
    options.type = KernelType::kAivOnly;
    return sim->Launch(options, kernel).report;
  }
  GlobalTensor<float> In() {
    GlobalTensor<float> tensor;
    tensor.SetGlobalBuffer(in_.data());
    return tensor;
  }
  GlobalTensor<float> Out() {
    GlobalTensor<float> tensor;
    tensor.SetGlobalBuffer(out_.data());
    return tensor;
  }
  // Runs `body(dst, a, b)` on 256 floats each, in UB, and stores dst.
  SimReport OnThree(
      const std::function<void(LocalTensor<float>, LocalTensor<float>, LocalTensor<float>)>& body) {
    return Run([&] {
      const LocalTensor<float> dst(TPosition::VECOUT, 0, 256), a(TPosition::VECIN, 1024, 256),
          b(TPosition::VECIN, 2048, 256);
      DataCopy(a, In(), 256);
      DataCopy(b, In()[256], 256);
      SetFlag<HardEvent::MTE2_V>(0);
      WaitFlag<HardEvent::MTE2_V>(0);
      Duplicate(dst, -1.0f, 256);
      PipeBarrier<PIPE_V>();
      body(dst, a, b);
      SetFlag<HardEvent::V_MTE3>(0);
      WaitFlag<HardEvent::V_MTE3>(0);
      DataCopy(Out(), dst, 256);
    });
  }

  std::vector<float> in_ = Filled<float>(1024, 5);
  std::vector<float> out_ = std::vector<float>(1024, 0.0f);
  std::vector<half> halves_ = Filled<half>(1024, 6);
};

TEST_F(VectorTest, CountsAndScalars) {
  EXPECT_TRUE(OnThree([](auto d, auto a, auto b) {
                Add(d, a, b, 100);
                PipeBarrier<PIPE_V>();
                Axpy(d, a, 2.0f, 50);
              }).ok());
  for (size_t i = 0; i < 256; ++i) {
    const float expected = i < 50    ? in_[i] + in_[256 + i] + in_[i] * 2.0f
                           : i < 100 ? in_[i] + in_[256 + i]
                                     : -1.0f;
    EXPECT_EQ(out_[i], expected) << i;
  }
}

TEST_F(VectorTest, MasksAndRepeatStrides) {
  // Even lanes of 32, two repeats; the second operand's block is used again and again.
  const uint64_t mask[2] = {0x55555555u, 0};
  EXPECT_TRUE(OnThree([&](auto d, auto a, auto b) {
                Mul(d, a, b, mask, 2, BinaryRepeatParams(1, 1, 0, 8, 8, 0));
              }).ok());
  for (size_t i = 0; i < 128; ++i) {
    const size_t lane = i % 64;
    const float expected = lane < 32 && lane % 2 == 0 ? in_[i] * in_[256 + lane % 8] : -1.0f;
    EXPECT_EQ(out_[i], expected) << i;
  }
}

TEST_F(VectorTest, ReductionsGoByATree) {
  EXPECT_TRUE(OnThree([](auto d, auto a, auto b) {
                WholeReduceSum(d, a, 64, 4, 1, 1, 8);
                BlockReduceSum(d[64], a, 2, 64, 1, 1, 8);
                PairReduceSum(d[128], a, 1, 64, 1, 1, 8);
                PipeBarrier<PIPE_V>();
                ReduceSum(d[192], a, b, 200);
              }).ok());
  float whole = 0;
  float block = 0;
  float all = 0;
  for (size_t i = 0; i < 64; ++i) whole += in_[i];
  for (size_t i = 0; i < 8; ++i) block += in_[8 + i];
  for (size_t i = 0; i < 200; ++i) all += in_[i];
  EXPECT_EQ(out_[0], whole);
  EXPECT_EQ(out_[65], block);
  EXPECT_EQ(out_[130], in_[4] + in_[5]);
  EXPECT_EQ(out_[192], all);
}

// Two results beside each other in one block of 32 bytes need no barrier; on one place they do.
TEST_F(VectorTest, NeighboursInABlockAreTwoPlaces) {
  const auto kernel = [](uint32_t second) {
    return [second](auto d, auto a, auto) {
      WholeReduceSum(d[0], a, 64, 1, 1, 1, 8);
      WholeReduceSum(d[second], a[64], 64, 1, 1, 1, 8);
    };
  };
  EXPECT_TRUE(OnThree(kernel(1)).ok());
  EXPECT_TRUE(OnThree(kernel(0)).Has(ErrorKind::kWriteAfterWrite));
}

TEST_F(VectorTest, CastsRoundAsAsked) {
  in_[0] = 1.0f + 3.0f / 2048;
  in_[1] = -2.5f;
  EXPECT_TRUE(OnThree([](auto d, auto a, auto b) {
                const LocalTensor<half> h = b.template ReinterpretCast<half>();
                Cast(h, a, RoundMode::CAST_RINT, 64);
                PipeBarrier<PIPE_V>();
                Cast(d, h, RoundMode::CAST_NONE, 64);
                const LocalTensor<int32_t> whole = b[128].template ReinterpretCast<int32_t>();
                Cast(whole, a, RoundMode::CAST_FLOOR, 8);
                PipeBarrier<PIPE_V>();
                Cast(d[64], whole, RoundMode::CAST_NONE, 8);
              }).ok());
  EXPECT_EQ(out_[0], 1.0f + 4.0f / 2048);
  EXPECT_EQ(out_[1], -2.5f);
  EXPECT_EQ(out_[65], -3.0f);
}

TEST_F(VectorTest, BrcbAndGather) {
  EXPECT_TRUE(OnThree([](auto d, auto a, auto b) {
                Brcb(d, a, 1, BrcbRepeatParams(1, 8));
                const LocalTensor<uint32_t> offsets = b.template ReinterpretCast<uint32_t>();
                Duplicate(offsets, uint32_t{12}, 8);
                PipeBarrier<PIPE_V>();
                Gather(d[64], a, offsets, 4u, 8u);
              }).ok());
  EXPECT_EQ(out_[0], in_[0]);
  EXPECT_EQ(out_[15], in_[1]);
  EXPECT_EQ(out_[64], in_[4]);
}

TEST_F(VectorTest, LimitsAndMissingTypes) {
  EXPECT_TRUE(
      OnThree([](auto d, auto a, auto b) { Add(d, a, b, 0); }).Has(ErrorKind::kBadArgument));
  EXPECT_TRUE(OnThree([](auto d, auto a, auto b) {
                Add(d, a, b, 64, 0, BinaryRepeatParams());
              }).Has(ErrorKind::kBadArgument));
  EXPECT_TRUE(
      OnThree([](auto d, auto a, auto b) { Add(d[1], a, b, 8); }).Has(ErrorKind::kMisaligned));
  EXPECT_TRUE(
      OnThree([](auto d, auto a, auto) { Adds(d, d[8], 1.0f, 64); }).Has(ErrorKind::kBadArgument));
  EXPECT_TRUE(Run([] {
                const LocalTensor<bfloat16_t> u(TPosition::VECCALC, 0, 64);
                Add(u, u, u, 64);
              }).Has(ErrorKind::kNoPath));
}

// in * 2 through queues with two buffers each.
struct Doubling {
  GlobalTensor<float> in, out;
  int tiles = 4;
  bool free_in = true;
  bool enqueue = true;
  void operator()() const {
    TPipe pipe;
    TQue<QuePosition::VECIN, 2> input;
    TQue<QuePosition::VECOUT, 2> output;
    pipe.InitBuffer(input, 2, 256);
    pipe.InitBuffer(output, 2, 256);
    for (int t = 0; t < tiles; ++t) {
      LocalTensor<float> x = input.AllocTensor<float>();
      DataCopy(x, in[t * 64], 64);
      if (enqueue) input.EnQue(x);
      x = input.DeQue<float>();
      LocalTensor<float> y = output.AllocTensor<float>();
      Add(y, x, x, 64);
      output.EnQue(y);
      if (free_in) input.FreeTensor(x);
      y = output.DeQue<float>();
      DataCopy(out[t * 64], y, 64);
      output.FreeTensor(y);
    }
  }
};

TEST_F(VectorTest, QueuesOrderTheirPipes) {
  const SimReport report = Run(Doubling{In(), Out()});
  EXPECT_TRUE(report.ok()) << report.ToString();
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(out_[i], 2 * in_[i]);
}

TEST_F(VectorTest, QueueProtocolBroken) {
  Doubling leak{In(), Out()};
  leak.free_in = false;
  EXPECT_TRUE(Run(leak).Has(ErrorKind::kQueueProtocol));
  Doubling skip{In(), Out()};
  skip.enqueue = false;
  EXPECT_TRUE(Run(skip).Has(ErrorKind::kQueueProtocol));
  EXPECT_TRUE(Run([] {
                TPipe pipe;
                TQue<QuePosition::VECIN, 1> queue;
                pipe.InitBuffer(queue, 4, 65536);
              }).Has(ErrorKind::kOverCapacity));
  EXPECT_TRUE(Run([] {
                TQue<QuePosition::VECIN, 1> queue;
                queue.AllocTensor<float>();
              }).Has(ErrorKind::kQueueProtocol));
}

TEST_F(VectorTest, PadsFillOrStayUninitialised) {
  const auto kernel = [&](bool pad) {
    return [&, pad] {
      const LocalTensor<float> u(TPosition::VECIN, 0, 16);
      DataCopyPad(u, In(), DataCopyExtParams(2, 12, 4, 0, 0),
                  DataCopyPadExtParams<float>(pad, 0, 5, 9.0f));
      SetFlag<HardEvent::MTE2_MTE3>(0);
      WaitFlag<HardEvent::MTE2_MTE3>(0);
      DataCopy(Out(), u, 16);
    };
  };
  EXPECT_TRUE(Run(kernel(true)).ok());
  EXPECT_EQ(out_[2], in_[2]);
  EXPECT_EQ(out_[3], 9.0f);
  EXPECT_EQ(out_[8], in_[4]);
  EXPECT_TRUE(Run(kernel(false)).Has(ErrorKind::kUninitialised));
}

// Arch 2002: one core has both units; L0C -> UB -> L1.
TEST_F(VectorTest, TheCoupledCoreMovesBetweenCubeAndVector) {
  const SimReport report = Run(
      [&] {
        GlobalTensor<half> h, ho;
        h.SetGlobalBuffer(halves_.data());
        ho.SetGlobalBuffer(halves_.data() + 512);
        const LocalTensor<half> l1(TPosition::A1, 0, 256), back(TPosition::A1, 512, 256);
        const LocalTensor<half> a(TPosition::A2, 0, 256), b(TPosition::B2, 0, 256);
        const LocalTensor<float> c(TPosition::CO1, 0, 256);
        const LocalTensor<float> f(TPosition::CO2, 0, 256);
        const LocalTensor<half> s(TPosition::VECCALC, 1024, 256);
        DataCopy(l1, h, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
        SetFlag<HardEvent::MTE2_MTE1>(0);
        WaitFlag<HardEvent::MTE2_MTE1>(0);
        LoadData(a, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
        LoadData(b, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
        SetFlag<HardEvent::MTE1_M>(0);
        WaitFlag<HardEvent::MTE1_M>(0);
        Mmad(c, a, b, MmadParams(16, 16, 16, 0, false, true));
        SetFlag<HardEvent::M_V>(0);
        WaitFlag<HardEvent::M_V>(0);
        DataCopyEnhancedParams matrix;
        matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
        DataCopy(f, c, DataCopyParams(1, 1, 0, 0), matrix);
        PipeBarrier<PIPE_V>();
        Muls(f, f, 0.5f, 256);
        PipeBarrier<PIPE_V>();
        Cast(s, f, RoundMode::CAST_NONE, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(back, s, 256);
        DataCopy(ho, s, 256);
      },
      "310P3");
  EXPECT_TRUE(report.ok()) << report.ToString();
  float sum = 0;
  for (size_t k = 0; k < 16; ++k) sum += halves_[k] * halves_[16 + k];
  EXPECT_EQ(halves_[512 + 1], half(sum * 0.5f));
}

}  // namespace
}  // namespace lorica::ascend
