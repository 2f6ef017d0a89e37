// A correct tiled product in many shapes: right results, no alarm, sane cycles, in time.
#include <gtest/gtest.h>

#include <chrono>

#include "lorica/kernels/ascend/sim/test_kernels.h"

namespace lorica::ascend {
namespace {

struct Shape {
  int32_t m, n, k, tile_n, tile_k, cores;
  int32_t l1_buffers = 2;
};

template <typename T>
LaunchResult RunProduct(const Shape& s, std::vector<T>* y, const std::string& soc = "910B3") {
  auto sim = OpenSim(soc);
  std::vector<T> x = Filled<T>(int64_t{s.m} * s.k, 1);
  std::vector<T> w = Filled<T>(int64_t{s.n} * s.k, 2);
  y->assign(static_cast<size_t>(s.m) * static_cast<size_t>(s.n), T(0.0f));
  AddVector(sim.get(), "x", &x);
  AddVector(sim.get(), "w", &w);
  AddVector(sim.get(), "y", y);
  const ProductParams<T> p{x.data(), w.data(), y->data(), s.m,         s.n,
                           s.k,      s.tile_n, s.tile_k,  s.l1_buffers};
  LaunchOptions options;
  options.blocks = s.cores;
  options.trace = true;
  LaunchResult result = sim->Launch(options, [&] { ProductKernel<T>(p); });
  EXPECT_TRUE(result.report.ok()) << result.report.ToString();
  if (int64_t{s.m} * s.n * s.k < 4'000'000) ExpectProduct(x, w, *y, s.m, s.n, s.k);
  return result;
}

TEST(ProductTest, CorrectProgramsOfManyShapesGiveNoAlarm) {
  const Shape shapes[] = {
      {16, 16, 16, 16, 16, 1},     {16, 64, 128, 32, 64, 1},    {32, 96, 64, 48, 32, 2},
      {16, 256, 256, 128, 128, 2}, {48, 160, 96, 80, 96, 2},    {64, 128, 128, 128, 64, 1},
      {16, 320, 64, 16, 64, 20},   {128, 128, 64, 64, 32, 2},   {16, 512, 512, 128, 128, 4},
      {80, 64, 256, 64, 128, 1},   {32, 192, 512, 64, 64, 3, 5}};
  for (const Shape& shape : shapes) {
    std::vector<half> y;
    RunProduct<half>(shape, &y);
    std::vector<bfloat16_t> z;
    RunProduct<bfloat16_t>(shape, &z);
  }
}

TEST(ProductTest, ResultIsTheSameOnEveryNumberOfCores) {
  std::vector<half> one, many;
  RunProduct<half>({32, 640, 256, 64, 64, 1}, &one);
  RunProduct<half>({32, 640, 256, 64, 64, 10}, &many);
  for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i].bits, many[i].bits);
}

TEST(ProductTest, FourThousandSquaredTakesSeconds) {
  std::vector<half> y;
  const auto start = std::chrono::steady_clock::now();
  const LaunchResult result = RunProduct<half>({32, 4096, 4096, 128, 128, 20}, &y);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("4096 x 4096, 32 tokens: %.2f s, %.0f modelled cycles, floor %.0f\n", seconds,
              result.timeline.cycles, result.timeline.memory_floor_cycles);
  std::printf("%s", result.timeline.ToCsv().c_str());
  EXPECT_GT(result.timeline.cycles, result.timeline.memory_floor_cycles);
  EXPECT_LT(result.timeline.cycles, 4 * result.timeline.memory_floor_cycles);
}

}  // namespace
}  // namespace lorica::ascend
