#include "lorica/kernels/ascend/device/acl_device.h"

#include <acl/acl.h>

namespace lorica::ascend {
namespace {

Status Check(aclError code, const char* call) {
  if (code == ACL_SUCCESS) return OkStatus();
  return Unavailable(std::string(call) + ": expected success, found code " + std::to_string(code));
}

}  // namespace

Result<std::unique_ptr<AclDevice>> AclDevice::Open(int32_t id) {
  LORICA_RETURN_IF_ERROR(Check(aclInit(nullptr), "aclInit"));
  LORICA_RETURN_IF_ERROR(Check(aclrtSetDevice(id), "aclrtSetDevice"));
  std::unique_ptr<AclDevice> device(new AclDevice(id));
  aclrtStream stream = nullptr;
  LORICA_RETURN_IF_ERROR(Check(aclrtCreateStream(&stream), "aclrtCreateStream"));
  device->stream_ = stream;
  if (const char* name = aclrtGetSocName(); name != nullptr) device->soc_ = name;
  return device;
}

AclDevice::~AclDevice() {
  if (stream_ != nullptr) aclrtDestroyStream(stream_);
  aclrtResetDevice(id_);
  aclFinalize();
}

Result<void*> AclDevice::Allocate(int64_t bytes) {
  void* memory = nullptr;
  const aclError code = aclrtMalloc(&memory, static_cast<size_t>(bytes), ACL_MEM_MALLOC_HUGE_FIRST);
  if (code != ACL_SUCCESS) {
    return ResourceExhausted("device memory: expected " + std::to_string(bytes) +
                             " bytes, found code " + std::to_string(code));
  }
  return memory;
}

void AclDevice::Free(void* memory) { aclrtFree(memory); }

Status AclDevice::ToDevice(void* device, const void* host, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  return Check(aclrtMemcpy(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
}

Status AclDevice::ToHost(void* host, const void* device, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  return Check(aclrtMemcpy(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
}

Status AclDevice::Synchronize() {
  return Check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream");
}

}  // namespace lorica::ascend
