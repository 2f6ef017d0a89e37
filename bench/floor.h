// Floor: what the machine could do at best, measured in the same run as the kernels: bytes read
// from memory a second, and f32 multiply-adds a second with the instruction set in use. Owned by
// one benchmark; not thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "bench/floor_kernels.h"
#include "lorica/base/buffer.h"
#include "lorica/base/status.h"
#include "lorica/base/thread_pool.h"

namespace lorica::bench {

class Floor {
 public:
  // `isa` as OpenCpuBackend names it. The pool must outlive the floor.
  static Result<Floor> Create(ThreadPool* pool, std::string_view isa);

  // Times both once; call it in turn with the kernel under test.
  void Sample();
  void Clear();
  // Medians of the samples since Clear.
  double ReadRate() const;      // bytes a second
  double MultiplyRate() const;  // flops a second, 2 a multiply-add

 private:
  Floor(ThreadPool* pool, Buffer data, FloorKernels kernels)
      : pool_(pool), data_(std::move(data)), kernels_(kernels) {}

  ThreadPool* pool_;
  Buffer data_;
  FloorKernels kernels_;
  int64_t next_slice_ = 0;
  std::vector<float> sinks_;  // of each thread, so that no loop is dropped
  std::vector<double> read_rates_;
  std::vector<double> multiply_rates_;
};

}  // namespace lorica::bench
