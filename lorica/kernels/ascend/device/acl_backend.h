// AclBackend: linear layers on a real NPU, everything else on the host. W is copied to the device
// when it is first used; x, the adapters' tiles and y travel with each call: right before it is
// fast. Not built in CI. Threads as CubeBackend has them.
#pragma once

#include <map>
#include <memory>

#include "lorica/kernels/ascend/cube_backend.h"
#include "lorica/kernels/ascend/device/acl_device.h"

namespace lorica::ascend {

class AclBackend : public CubeBackend {
 public:
  struct Options {
    int32_t device = 0;
    DType compute = DType::kF16;
  };

  // UNAVAILABLE without a device; NOT_FOUND with the list for a chip that is not in the table.
  static Result<std::unique_ptr<AclBackend>> Open(const Options& options);
  ~AclBackend() override;

 protected:
  Status RunBase(BaseCall* call) const override;
  Status RunLora(LoraCall* call) const override;

 private:
  AclBackend(const Options& options, std::string name, int32_t cores,
             std::unique_ptr<AclDevice> device);

  // Under mutex(), both.
  std::unique_ptr<AclDevice> device_;
  mutable std::map<const std::byte*, void*> weights_;  // device copies, by their host address
};

}  // namespace lorica::ascend
