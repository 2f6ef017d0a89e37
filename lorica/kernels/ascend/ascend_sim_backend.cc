#include "lorica/kernels/ascend/ascend_sim_backend.h"

#include <algorithm>
#include <set>

#include "lorica/base/log.h"
#include "lorica/kernels/ascend/base_linear.h"
#include "lorica/kernels/ascend/kernel_entries.h"
#include "lorica/kernels/ascend/lora_program.h"
#include "lorica/kernels/ascend/lowering.h"

namespace lorica::ascend {
namespace {

int64_t Padded(int64_t length) { return (length + kFractal - 1) / kFractal * kFractal; }

// Element (n, k) of W in panels of kBasePanel columns.
size_t PlaceOf(int64_t n, int64_t k, int64_t columns, int64_t inner) {
  const int64_t panel = n / kBasePanel * kBasePanel;
  const int64_t width = std::min<int64_t>(kBasePanel, columns - panel);
  const int64_t column = n - panel;
  return static_cast<size_t>(panel * inner + k / kFractal * width * kFractal +
                             column / kFractal * kFractalElements + column % kFractal * kFractal +
                             k % kFractal);
}

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
    : ReferenceBackend(kernels::Sums::kF32),
      options_(options),
      name_("ascend-sim " + options.soc),
      packer_(options.compute),
      simulator_(std::move(simulator)) {}

uint16_t AscendSimBackend::Encode(float value) const {
  return options_.compute == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
}

Result<kernels::Weight> AscendSimBackend::PackWeight(const kernels::RowSource& source, DType,
                                                     MachineContext* context) const {
  kernels::Weight weight;
  weight.layout = kernels::WeightLayout::kFractals16;
  weight.k = source.k();
  weight.n = source.n();
  const int64_t inner = Padded(weight.k);
  const int64_t columns = Padded(weight.n);
  LORICA_ASSIGN_OR_RETURN(
      weight.data, Buffer::Allocate(inner * columns * 2, MemoryTag::kWeights, &context->ledger));
  const auto data = weight.data.as<uint16_t>();
  std::vector<float> row(static_cast<size_t>(weight.k));
  for (int64_t n = 0; n < weight.n; ++n) {
    source.ReadRow(n, row);
    for (int64_t k = 0; k < weight.k; ++k) {
      data[PlaceOf(n, k, columns, inner)] = Encode(row[static_cast<size_t>(k)]);
    }
  }
  return weight;
}

void AscendSimBackend::UnpackRow(const kernels::Weight& weight, int64_t n,
                                 std::span<float> row) const {
  const auto data = weight.data.as<uint16_t>();
  for (int64_t k = 0; k < weight.k; ++k) {
    const uint16_t bits = data[PlaceOf(n, k, Padded(weight.n), Padded(weight.k))];
    row[static_cast<size_t>(k)] =
        options_.compute == DType::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
  }
}

lora::PlanLimits AscendSimBackend::plan_limits(int32_t) const {
  return LimitsOf(simulator_->soc().cube_cores);
}

AscendSimBackend::Counters AscendSimBackend::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void AscendSimBackend::RunBase(const kernels::LinearParams& params, const kernels::LinearPart& part,
                               AlignedVector<uint16_t>* x, AlignedVector<float>* sums) const {
  const int64_t columns = Padded(part.weight->n);
  const int64_t panels = (columns + kBasePanel - 1) / kBasePanel;
  const int32_t cores =
      static_cast<int32_t>(std::min<int64_t>(panels, simulator_->soc().cube_cores));
  AlignedVector<uint32_t> program(kBaseWords, 0);
  program[kBaseCores] = static_cast<uint32_t>(cores);
  program[kBaseRows] = static_cast<uint32_t>(params.rows);
  program[kBaseInner] = static_cast<uint32_t>(Padded(params.k));
  program[kBaseColumns] = static_cast<uint32_t>(columns);
  sums->assign(static_cast<size_t>(params.rows * columns), 0.0f);
  auto* w = const_cast<std::byte*>(part.weight->data.data());
  Add(simulator_.get(), "x", x);
  simulator_->AddGm("W", w, part.weight->data.bytes());
  Add(simulator_.get(), "y", sums);
  Add(simulator_.get(), "program", &program);
  LaunchOptions launch;
  launch.blocks = cores;
  launch.timeline = options_.timeline;
  const auto kernel = options_.compute == DType::kF16 ? base_linear_f16 : base_linear_bf16;
  const LaunchResult result = simulator_->Launch(launch, [&] {
    kernel(Bytes(x), reinterpret_cast<uint8_t*>(w), Bytes(sums), Bytes(&program));
  });
  simulator_->RemoveAllGm();
  Demand(result);
  ++counters_.base_launches;
  counters_.base_cycles += result.timeline.cycles;
}

void AscendSimBackend::RunLora(const kernels::LinearParams& params, AlignedVector<uint16_t>* x,
                               std::vector<AlignedVector<float>>* sums) const {
  lora::CallSites call;
  call.parts = static_cast<int32_t>(params.parts.size());
  std::vector<uint64_t> y;
  std::set<std::pair<const std::byte*, int64_t>> tiles;
  for (size_t part = 0; part < params.parts.size(); ++part) {
    const kernels::LinearPart& p = params.parts[part];
    call.site[part] = p.site;
    call.shape[part] = {params.k, p.weight->n};
    y.push_back(reinterpret_cast<uint64_t>((*sums)[part].data()));
    Add(simulator_.get(), "y", &(*sums)[part]);
    const int64_t bytes = packer_.TileBytes({params.k, p.weight->n, options_.compute});
    for (const lora::Segment& segment : params.segments->segments()) {
      for (const lora::TileRef& tile : params.table->Entry(segment.slot, p.site).tiles) {
        tiles.insert({tile.address, bytes});
      }
    }
  }
  for (const auto& [address, bytes] : tiles) {
    simulator_->AddGm("tile", const_cast<std::byte*>(address), bytes);
  }
  LoraProgram program;
  LoweringInput input;
  input.call = &call;
  input.plan = params.plan;
  input.segments = params.segments;
  input.table = params.table;
  input.y = y;
  const Status lowered = Lower(input, &program);
  if (!lowered.ok()) std::fprintf(stderr, "%s\n", lowered.ToString().c_str());
  LORICA_CHECK(lowered.ok());
  Add(simulator_.get(), "x", x);
  Add(simulator_.get(), "program", &program.words);
  AlignedVector<uint16_t> identity(kFractalElements, 0);
  Add(simulator_.get(), "identity", &identity);
  LaunchOptions launch;
  launch.blocks = program.cores;
  launch.timeline = options_.timeline;
  const auto kernel = options_.compute == DType::kF16 ? lora_linear_f16_f32 : lora_linear_bf16_f32;
  const LaunchResult result = simulator_->Launch(
      launch, [&] { kernel(Bytes(x), Bytes(&program.words), Bytes(&identity)); });
  simulator_->RemoveAllGm();
  Demand(result);
  ++counters_.lora_launches;
  counters_.lora_cycles += result.timeline.cycles;
}

void AscendSimBackend::LoraLinear(const kernels::LinearParams& params,
                                  const TeamMember& member) const {
  if (member.thread != 0 || params.rows == 0) return;
  const std::lock_guard lock(mutex_);
  const int64_t inner = Padded(params.k);
  AlignedVector<uint16_t> x(static_cast<size_t>(params.rows * inner), 0);
  for (int64_t row = 0; row < params.rows; ++row) {
    for (int64_t k = 0; k < params.k; ++k) {
      x[static_cast<size_t>(row * inner + k)] = Encode(params.x[row * params.x_stride + k]);
    }
  }
  std::vector<AlignedVector<float>> sums(params.parts.size());
  for (size_t part = 0; part < params.parts.size(); ++part) {
    RunBase(params, params.parts[part], &x, &sums[part]);
  }
  if (params.plan != nullptr && !params.plan->empty()) RunLora(params, &x, &sums);
  for (size_t part = 0; part < params.parts.size(); ++part) {
    const kernels::LinearPart& p = params.parts[part];
    const int64_t columns = Padded(p.weight->n);
    for (int64_t row = 0; row < params.rows; ++row) {
      float* y = p.y + row * p.y_stride;
      for (int64_t n = 0; n < p.weight->n; ++n) {
        float sum = sums[part][static_cast<size_t>(row * columns + n)];
        if (p.epilogue.bias != nullptr) sum += p.epilogue.bias[n];
        y[n] = p.epilogue.add_to_output ? y[n] + sum : sum;
      }
    }
  }
}

}  // namespace lorica::ascend
