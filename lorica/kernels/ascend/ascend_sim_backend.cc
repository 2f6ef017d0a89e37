#include "lorica/kernels/ascend/ascend_sim_backend.h"

#include <cstdio>
#include <set>

#include "lorica/base/check.h"
#include "lorica/kernels/ascend/kernel_entries.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica::ascend {
namespace {

template <typename T>
uint8_t* Bytes(AlignedVector<T>* values) {
  return reinterpret_cast<uint8_t*>(values->data());
}
template <typename T>
void Add(Simulator* simulator, const char* name, AlignedVector<T>* values) {
  simulator->AddGm(name, values->data(), static_cast<int64_t>(values->size() * sizeof(T)));
}

// A kernel that breaks a rule is a fault of ours: nothing that it wrote can be trusted.
void Demand(const LaunchResult& result) {
  if (!result.report.ok()) std::fputs(result.report.ToString().c_str(), stderr);
  LORICA_CHECK(result.report.ok());
}

}  // namespace

Result<std::unique_ptr<AscendSimBackend>> AscendSimBackend::Open(const Options& options) {
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<Simulator> simulator, Simulator::Open(options.soc));
  if (simulator->soc().arch != 2201) {
    return Unimplemented("ascend-sim serves chips of arch 2201, found " + options.soc +
                         " of arch " + std::to_string(simulator->soc().arch));
  }
  return std::unique_ptr<AscendSimBackend>(new AscendSimBackend(options, std::move(simulator)));
}

AscendSimBackend::AscendSimBackend(const Options& options, std::unique_ptr<Simulator> simulator)
    : CubeBackend("ascend-sim " + options.soc, options.compute, simulator->soc().cube_cores),
      options_(options),
      simulator_(std::move(simulator)) {}

AscendSimBackend::Counters AscendSimBackend::counters() const {
  const std::lock_guard lock(mutex());
  return counters_;
}

Status AscendSimBackend::RunBase(BaseCall* call) const {
  auto* w = const_cast<std::byte*>(call->weight->data.data());
  Add(simulator_.get(), "x", call->x);
  simulator_->AddGm("W", w, call->weight->data.bytes());
  Add(simulator_.get(), "y", call->y);
  Add(simulator_.get(), "program", &call->program);
  LaunchOptions launch;
  launch.blocks = call->cores;
  launch.timeline = options_.timeline;
  const auto kernel = compute() == DType::kF16 ? base_linear_f16 : base_linear_bf16;
  const LaunchResult result = simulator_->Launch(launch, [&] {
    kernel(Bytes(call->x), reinterpret_cast<uint8_t*>(w), Bytes(call->y), Bytes(&call->program));
  });
  simulator_->RemoveAllGm();
  Demand(result);
  ++counters_.base_launches;
  counters_.base_cycles += result.timeline.cycles;
  return OkStatus();
}

Status AscendSimBackend::RunLora(LoraCall* call) const {
  LoweringInput& input = call->lowering;
  std::vector<uint64_t> y;
  std::set<std::pair<const std::byte*, int64_t>> tiles;
  for (int32_t i = 0; i < call->sites.parts; ++i) {
    const auto part = static_cast<size_t>(i);
    const lora::SiteShape& shape = call->sites.shape[part];
    y.push_back(reinterpret_cast<uint64_t>((*call->y)[part].data()));
    Add(simulator_.get(), "y", &(*call->y)[part]);
    const int64_t bytes = packer().TileBytes({shape.k, shape.n, compute()});
    for (const lora::Segment& segment : input.segments->segments()) {
      for (const lora::TileRef& tile :
           input.table->Entry(segment.slot, call->sites.site[part]).tiles) {
        tiles.insert({tile.address, bytes});
      }
    }
  }
  for (const auto& [address, bytes] : tiles) {
    simulator_->AddGm("tile", const_cast<std::byte*>(address), bytes);
  }
  AlignedVector<float> slices(static_cast<size_t>(input.plan->s_floats));
  GmOptions unwritten;
  unwritten.initialised = false;
  simulator_->AddGm("sums of slices", slices.data(), static_cast<int64_t>(slices.size() * 4),
                    unwritten);
  input.y = y;
  input.sums = reinterpret_cast<uint64_t>(slices.data());
  LoraProgram program;
  const Status lowered = Lower(input, &program);
  if (!lowered.ok()) {
    simulator_->RemoveAllGm();
    return lowered;
  }
  Add(simulator_.get(), "x", call->x);
  Add(simulator_.get(), "program", &program.words);
  AlignedVector<uint16_t> identity(kFractalElements, 0);
  Add(simulator_.get(), "identity", &identity);
  LaunchOptions launch;
  launch.type = KernelType::kMixAic1_0;
  launch.blocks = program.cores;
  launch.timeline = options_.timeline;
  const auto kernel =
      compute() == DType::kF16 ? lora_linear_split_f16_f32 : lora_linear_split_bf16_f32;
  const LaunchResult result = simulator_->Launch(
      launch, [&] { kernel(Bytes(call->x), Bytes(&program.words), Bytes(&identity)); });
  simulator_->RemoveAllGm();
  Demand(result);
  ++counters_.lora_launches;
  counters_.lora_cycles += result.timeline.cycles;
  return OkStatus();
}

}  // namespace lorica::ascend
