// Floor: what the machine could do at best, measured in the same run as the kernels: bytes read
// from memory a second, and multiply-adds a second with the instruction set in use, f32 and, where
// the backend uses it, the bf16 dot. Owned by one benchmark; not thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "bench/floor_kernels.h"
#include "lorica/base/buffer.h"
#include "lorica/base/status.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/params.h"

namespace lorica::bench {

class Floor {
 public:
  // `backend` as Backend::name() says it: "cpu avx512 bf16". The pool must outlive the floor.
  static Result<Floor> Create(ThreadPool* pool, std::string_view backend);

  // Times each once; call it in turn with the kernel under test.
  void Sample();
  void Clear();
  // Medians of the samples since Clear.
  double ReadRate() const;  // bytes a second
  // Flops a second, 2 a multiply-add: by what the backend multiplies activations of a type with.
  double MultiplyRate(kernels::ActivationType type) const;
  bool has_dot() const { return has_dot_; }
  // Operations a second on bytes, 2 a multiply-add; 0 where none were measured.
  double ByteRate() const;

 private:
  Floor(ThreadPool* pool, Buffer data, FloorKernels kernels)
      : pool_(pool), data_(std::move(data)), kernels_(kernels) {}

  double TimeMultiply(float (*multiply)(int64_t), int64_t flops_per_round);

  ThreadPool* pool_;
  Buffer data_;
  FloorKernels kernels_;
  bool has_dot_ = false;
  ByteFloor bytes_;
  int64_t next_slice_ = 0;
  std::vector<float> sinks_;  // of each thread, so that no loop is dropped
  std::vector<double> read_rates_;
  std::vector<double> multiply_rates_;
  std::vector<double> dot_rates_;
  std::vector<double> byte_rates_;
};

}  // namespace lorica::bench
