#include "lorica/kernels/ascend/device/acl_backend.h"

#include <span>
#include <vector>

#include "lorica/kernels/ascend/device/acl_operator.h"
#include "lorica/kernels/ascend/lora_program.h"
#include "lorica/kernels/ascend/sim/soc_table.h"

namespace lorica::ascend {
namespace {

// The runtime's names are the table's behind this.
constexpr std::string_view kPrefix = "Ascend";

template <typename T>
int64_t BytesOf(const AlignedVector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

// Device memory for the length of a call.
class Scratch {
 public:
  explicit Scratch(AclDevice* device) : device_(device) {}
  ~Scratch() {
    for (void* memory : memory_) device_->Free(memory);
  }
  template <typename T>
  Result<uint8_t*> Upload(const AlignedVector<T>& values) {
    LORICA_ASSIGN_OR_RETURN(void* memory, device_->Allocate(BytesOf(values)));
    memory_.push_back(memory);
    LORICA_RETURN_IF_ERROR(device_->ToDevice(memory, values.data(), BytesOf(values)));
    return static_cast<uint8_t*>(memory);
  }

 private:
  AclDevice* device_;
  std::vector<void*> memory_;
};

}  // namespace

Result<std::unique_ptr<AclBackend>> AclBackend::Open(const Options& options) {
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<AclDevice> device, AclDevice::Open(options.device));
  std::string_view name = device->soc();
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  LORICA_ASSIGN_OR_RETURN(const SocSpec soc, FindSoc(name));
  if (soc.arch != 2201) {
    return Unimplemented("ascend serves chips of arch 2201, found " + device->soc());
  }
  return std::unique_ptr<AclBackend>(
      new AclBackend(options, "ascend " + std::string(name), soc.cube_cores, std::move(device)));
}

AclBackend::AclBackend(const Options& options, std::string name, int32_t cores,
                       std::unique_ptr<AclDevice> device)
    : CubeBackend(std::move(name), options.compute, cores), device_(std::move(device)) {}

AclBackend::~AclBackend() {
  for (const auto& [host, memory] : weights_) device_->Free(memory);
}

Status AclBackend::RunBase(BaseCall* call) const {
  const Buffer& weight = call->weight->data;
  void*& w = weights_[weight.data()];
  if (w == nullptr) {
    LORICA_ASSIGN_OR_RETURN(w, device_->Allocate(weight.bytes()));
    LORICA_RETURN_IF_ERROR(device_->ToDevice(w, weight.data(), weight.bytes()));
  }
  Scratch scratch(device_.get());
  LORICA_ASSIGN_OR_RETURN(uint8_t * x, scratch.Upload(*call->x));
  LORICA_ASSIGN_OR_RETURN(uint8_t * y, scratch.Upload(*call->y));
  LORICA_ASSIGN_OR_RETURN(uint8_t * program, scratch.Upload(call->program));
  lorica_launch_base_linear(compute() == DType::kBF16 ? 1 : 0, static_cast<uint32_t>(call->cores),
                            device_->stream(), x, static_cast<uint8_t*>(w), y, program);
  LORICA_RETURN_IF_ERROR(device_->Synchronize());
  return device_->ToHost(call->y->data(), y, BytesOf(*call->y));
}

Status AclBackend::RunLora(LoraCall* call) const {
  AlignedVector<uint16_t> identity(kFractalElements, 0);  // y in fp32 is added to, not multiplied
  AclOperator::Call op;
  op.kernel = compute() == DType::kF16 ? DeviceKernel::kSplitF16F32 : DeviceKernel::kSplitBf16F32;
  op.lowering = call->lowering;
  op.x = std::as_bytes(std::span(*call->x));
  op.identity = std::as_bytes(std::span(identity));
  for (AlignedVector<float>& y : *call->y) op.y.push_back(std::as_writable_bytes(std::span(y)));
  return AclOperator(device_.get()).Run(&op);
}

}  // namespace lorica::ascend
