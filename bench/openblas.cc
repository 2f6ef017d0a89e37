#include "bench/openblas.h"

#include <dlfcn.h>

namespace lorica::bench {
namespace {

constexpr int kRowMajor = 101;
constexpr int kPlain = 111;
constexpr int kTransposed = 112;

}  // namespace

Result<OpenBlas> OpenBlas::Load(int threads) {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotFound("libopenblas.so.0 is not installed");
  OpenBlas blas;
  blas.sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  blas.sgemv_ = reinterpret_cast<Sgemv>(dlsym(library, "cblas_sgemv"));
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto config = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_config"));
  if (blas.sgemm_ == nullptr || blas.sgemv_ == nullptr || set_threads == nullptr ||
      config == nullptr) {
    return NotFound("libopenblas.so.0 lacks a function that the benchmark needs");
  }
  set_threads(threads);
  blas.version_ = config();
  return blas;
}

void OpenBlas::Multiply(const Product& p) const {
  sgemm_(kRowMajor, kPlain, kTransposed, static_cast<int>(p.m), static_cast<int>(p.n),
         static_cast<int>(p.k), p.alpha, p.a, static_cast<int>(p.k), p.b, static_cast<int>(p.k),
         p.beta, p.c, static_cast<int>(p.n));
}

void OpenBlas::MultiplyRow(const Product& p) const {
  sgemv_(kRowMajor, kPlain, static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, p.b,
         static_cast<int>(p.k), p.a, 1, p.beta, p.c, 1);
}

}  // namespace lorica::bench
