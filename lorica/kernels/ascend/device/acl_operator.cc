#include "lorica/kernels/ascend/device/acl_operator.h"

#include <map>

#include "lorica/kernels/ascend/tile_packer.h"

namespace lorica::ascend {

AclOperator::~AclOperator() {
  for (void* memory : memory_) device_->Free(memory);
}

Result<void*> AclOperator::Upload(const void* host, int64_t bytes) {
  LORICA_ASSIGN_OR_RETURN(void* memory, device_->Allocate(bytes));
  memory_.push_back(memory);
  LORICA_RETURN_IF_ERROR(device_->ToDevice(memory, host, bytes));
  return memory;
}

Status AclOperator::Run(Call* call) {
  LoweringInput& in = call->lowering;
  std::map<const std::byte*, uint64_t> tiles;
  const AscendTilePacker packer(DType::kF16);  // sizes are those of any 16-bit type
  for (int32_t part = 0; part < in.call->parts; ++part) {
    const auto p = static_cast<size_t>(part);
    const int64_t bytes = packer.TileBytes({in.call->shape[p].k, in.call->shape[p].n, DType::kF16});
    for (const lora::Segment& segment : in.segments->segments()) {
      for (const lora::TileRef& tile : in.table->Entry(segment.slot, in.call->site[p]).tiles) {
        if (tiles.contains(tile.address)) continue;
        LORICA_ASSIGN_OR_RETURN(void* memory, Upload(tile.address, bytes));
        tiles[tile.address] = reinterpret_cast<uint64_t>(memory);
      }
    }
  }
  std::vector<void*> y;
  std::vector<uint64_t> addresses;
  for (const std::span<std::byte> part : call->y) {
    LORICA_ASSIGN_OR_RETURN(void* memory, Upload(part.data(), static_cast<int64_t>(part.size())));
    y.push_back(memory);
    addresses.push_back(reinterpret_cast<uint64_t>(memory));
  }
  in.y = addresses;
  in.translate = [&](const std::byte* tile) { return tiles.at(tile); };
  if (in.plan->s_floats > 0) {
    LORICA_ASSIGN_OR_RETURN(void* slices, device_->Allocate(in.plan->s_floats * 4));
    memory_.push_back(slices);
    in.sums = reinterpret_cast<uint64_t>(slices);
  }
  LoraProgram program;
  LORICA_RETURN_IF_ERROR(Lower(in, &program));
  LORICA_ASSIGN_OR_RETURN(
      void* words, Upload(program.words.data(), static_cast<int64_t>(program.words.size() * 8)));
  LORICA_ASSIGN_OR_RETURN(void* x, Upload(call->x.data(), static_cast<int64_t>(call->x.size())));
  LORICA_ASSIGN_OR_RETURN(
      void* identity, Upload(call->identity.data(), static_cast<int64_t>(call->identity.size())));
  for (int32_t i = 0; i < call->repeats; ++i) {
    lorica_launch_lora_linear(static_cast<uint32_t>(call->kernel),
                              static_cast<uint32_t>(program.cores), device_->stream(),
                              static_cast<uint8_t*>(x), static_cast<uint8_t*>(words),
                              static_cast<uint8_t*>(identity));
  }
  LORICA_RETURN_IF_ERROR(device_->Synchronize());
  for (size_t part = 0; part < y.size(); ++part) {
    LORICA_RETURN_IF_ERROR(
        device_->ToHost(call->y[part].data(), y[part], static_cast<int64_t>(call->y[part].size())));
  }
  return OkStatus();
}

}  // namespace lorica::ascend
