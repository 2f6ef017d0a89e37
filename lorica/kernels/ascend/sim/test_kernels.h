// For the tests of the model: GM with contents, and a plain tiled product kernel with manual
// flags and double buffers, as a correct program of the usual form.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernel_operator.h"
#include "lorica/kernels/ascend/sim/simulator.h"

namespace lorica::ascend {

inline std::unique_ptr<Simulator> OpenSim(const std::string& soc = "910B3") {
  Result<std::unique_ptr<Simulator>> sim = Simulator::Open(soc);
  EXPECT_TRUE(sim.ok());
  return std::move(*sim);
}

// Small integers and halves of them: exact in every type here.
inline float Pattern(int64_t i, int64_t salt) {
  return static_cast<float>((i * 2654435761 + salt * 40503) % 17 - 8) * 0.125f;
}
template <typename T>
std::vector<T> Filled(int64_t count, int64_t salt) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = T(Pattern(i, salt));
  return values;
}
template <typename T>
void AddVector(Simulator* sim, const std::string& name, std::vector<T>* values,
               GmOptions options = {}) {
  sim->AddGm(name, values->data(), static_cast<int64_t>(values->size() * sizeof(T)), options);
}

// y[m][n] = x[m][k] * w[n][k]^T, rounded to T. m, n, k multiples of 16; m * tile_n <= 32,768.
template <typename T>
struct ProductParams {
  T* x = nullptr;
  T* w = nullptr;
  T* y = nullptr;
  int32_t m = 16;
  int32_t n = 16;
  int32_t k = 16;
  int32_t tile_n = 16;
  int32_t tile_k = 16;
  int32_t l1_buffers = 2;  // at most 6
};

template <typename T>
void ProductKernel(const ProductParams<T>& p) {
  using namespace AscendC;
  GlobalTensor<T> x, w, y;
  x.SetGlobalBuffer(p.x, static_cast<uint64_t>(p.m) * p.k);
  w.SetGlobalBuffer(p.w, static_cast<uint64_t>(p.n) * p.k);
  y.SetGlobalBuffer(p.y, static_cast<uint64_t>(p.m) * p.n);
  const uint32_t size = sizeof(T);
  const uint32_t x_elements = p.m * p.tile_k;
  const uint32_t w_elements = p.tile_n * p.tile_k;
  LocalTensor<T> x1[6], w1[6], x0[2], w0[2];
  const uint32_t depth = static_cast<uint32_t>(p.l1_buffers);
  for (uint32_t b = 0; b < depth; ++b) {
    x1[b] = LocalTensor<T>(TPosition::A1, b * x_elements * size, x_elements);
    w1[b] = LocalTensor<T>(TPosition::B1, (depth * x_elements + b * w_elements) * size, w_elements);
    SetFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(b));
  }
  for (uint32_t b = 0; b < 2; ++b) {
    x0[b] = LocalTensor<T>(TPosition::A2, b * x_elements * size, x_elements);
    w0[b] = LocalTensor<T>(TPosition::B2, b * w_elements * size, w_elements);
    SetFlag<HardEvent::M_MTE1>(static_cast<int32_t>(b));
  }
  LocalTensor<float> c(TPosition::CO1, 0, p.m * p.tile_n);
  const int32_t tiles = p.n / p.tile_n;
  SetFlag<HardEvent::FIX_M>(0);
  int32_t step = 0;
  for (int32_t t = static_cast<int32_t>(GetBlockIdx()); t < tiles;
       t += static_cast<int32_t>(GetBlockNum())) {
    WaitFlag<HardEvent::FIX_M>(0);
    for (int32_t k = 0; k < p.k; k += p.tile_k, ++step) {
      const int32_t b = step % 2;
      const int32_t l = step % p.l1_buffers;
      WaitFlag<HardEvent::MTE1_MTE2>(l);
      DataCopy(x1[l], x[k], Nd2NzParams(1, p.m, p.tile_k, 0, p.k, p.m, 1, 0));
      DataCopy(w1[l], w[t * p.tile_n * p.k + k],
               Nd2NzParams(1, p.tile_n, p.tile_k, 0, p.k, p.tile_n, 1, 0));
      SetFlag<HardEvent::MTE2_MTE1>(l);
      WaitFlag<HardEvent::MTE2_MTE1>(l);
      WaitFlag<HardEvent::M_MTE1>(b);
      // NZ to ZZ: one row block at a time.
      for (int32_t mb = 0; mb < p.m / 16; ++mb) {
        LoadData(x0[b][mb * p.tile_k * 16], x1[l],
                 LoadData2DParams(mb, p.tile_k / 16, p.m / 16, 0, 0, false, 0));
      }
      const int32_t fractals = p.tile_k / 16 * (p.tile_n / 16);
      for (int32_t f = 0; f < fractals; f += 255) {
        const int32_t repeat = fractals - f < 255 ? fractals - f : 255;
        LoadData(w0[b][f * 256], w1[l], LoadData2DParams(f, repeat, 1, 0, 0, false, 0));
      }
      SetFlag<HardEvent::MTE1_MTE2>(l);
      SetFlag<HardEvent::MTE1_M>(b);
      WaitFlag<HardEvent::MTE1_M>(b);
      Mmad(c, x0[b], w0[b], MmadParams(p.m, p.tile_n, p.tile_k, 0, false, k == 0));
      if (p.m / 16 * (p.tile_n / 16) < 10) PipeBarrier<PIPE_M>();
      SetFlag<HardEvent::M_MTE1>(b);
    }
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
    FixpipeParamsV220 fix(p.tile_n, p.m, p.m, p.n, false);
    fix.quantPre = std::is_same<T, half>::value ? QuantMode_t::F322F16 : QuantMode_t::F322BF16;
    Fixpipe<T, float, CFG_ROW_MAJOR>(y[t * p.tile_n], c, fix);
    SetFlag<HardEvent::FIX_M>(0);
  }
  for (int32_t l = 0; l < p.l1_buffers; ++l) WaitFlag<HardEvent::MTE1_MTE2>(l);
  WaitFlag<HardEvent::M_MTE1>(0);
  WaitFlag<HardEvent::M_MTE1>(1);
  WaitFlag<HardEvent::FIX_M>(0);
}

template <typename T>
void ExpectProduct(const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& y,
                   int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < k; ++d) {
        sum += static_cast<double>(static_cast<float>(x[static_cast<size_t>(i * k + d)])) *
               static_cast<float>(w[static_cast<size_t>(j * k + d)]);
      }
      const float expected = T(static_cast<float>(sum));
      ASSERT_EQ(static_cast<float>(y[static_cast<size_t>(i * n + j)]), expected)
          << "row " << i << " column " << j;
    }
  }
}

}  // namespace lorica::ascend
