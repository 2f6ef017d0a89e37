// OpenBlas: the opponent, loaded at run time when it is installed; the program does not link it.
// Its own threads compute; single-threaded use.
#pragma once

#include <cstdint>
#include <string>

#include "lorica/base/status.h"

namespace lorica::bench {

class OpenBlas {
 public:
  // NOT_FOUND when libopenblas.so.0 is not installed.
  static Result<OpenBlas> Load(int threads);
  // "OpenBLAS 0.3.21 ..."
  const std::string& version() const { return version_; }

  // c[m, n] = alpha * a[m, k] * b[n, k]^T + beta * c; all dense and row-major.
  struct Product {
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    float alpha = 1.0f;
    const float* a = nullptr;
    const float* b = nullptr;
    float beta = 0.0f;
    float* c = nullptr;
  };
  void Multiply(const Product& product) const;
  // The same with m = 1, as a matrix times a vector.
  void MultiplyRow(const Product& product) const;

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  using Sgemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float,
                         float*, int);
  Sgemm sgemm_ = nullptr;
  Sgemv sgemv_ = nullptr;
  std::string version_;
};

}  // namespace lorica::bench
