// AclDevice: one NPU through the vendor's runtime (AscendCL): memory, copies, one stream. Not built
// in CI. Owned by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lorica/base/status.h"

namespace lorica::ascend {

class AclDevice {
 public:
  // UNAVAILABLE with the runtime's code when there is no such device.
  static Result<std::unique_ptr<AclDevice>> Open(int32_t id);
  ~AclDevice();
  AclDevice(const AclDevice&) = delete;
  AclDevice& operator=(const AclDevice&) = delete;

  const std::string& soc() const { return soc_; }  // "Ascend910B3"
  void* stream() const { return stream_; }

  // Device memory at a multiple of 512 bytes. RESOURCE_EXHAUSTED when there is none.
  Result<void*> Allocate(int64_t bytes);
  void Free(void* memory);
  Status ToDevice(void* device, const void* host, int64_t bytes);
  Status ToHost(void* host, const void* device, int64_t bytes);
  // Waits for all launches.
  Status Synchronize();

 private:
  explicit AclDevice(int32_t id) : id_(id) {}

  int32_t id_ = 0;
  void* stream_ = nullptr;
  std::string soc_;
};

}  // namespace lorica::ascend
