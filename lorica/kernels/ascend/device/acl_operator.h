// AclOperator: the fused operator on a real chip, for one call whose tensors are on the host. Each
// run copies everything to the device and back: for correctness and profiles, not for serving. Not
// built in CI. Owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lorica/kernels/ascend/device/acl_device.h"
#include "lorica/kernels/ascend/device/lora_linear_launch.h"
#include "lorica/kernels/ascend/lowering.h"

namespace lorica::ascend {

class AclOperator {
 public:
  explicit AclOperator(AclDevice* device) : device_(device) {}
  ~AclOperator();

  struct Call {
    DeviceKernel kernel = DeviceKernel::kF16;
    LoweringInput lowering;  // `y`, `sums`, `translate` are filled in here
    std::span<const std::byte> x;
    std::span<const std::byte> identity;
    std::vector<std::span<std::byte>> y;  // of each part, in and out
    int32_t repeats = 1;                  // of the launch; more than one only to be profiled
  };
  Status Run(Call* call);

 private:
  Result<void*> Upload(const void* host, int64_t bytes);

  AclDevice* device_;
  std::vector<void*> memory_;
};

}  // namespace lorica::ascend
