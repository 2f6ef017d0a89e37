#include "lorica/kernels/ascend/cube_backend.h"

#include <algorithm>
#include <limits>

#include "lorica/base/log.h"
#include "lorica/kernels/ascend/base_linear.h"
#include "lorica/kernels/ascend/lora_program.h"

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

}  // namespace

// The scale is on S: split items take it in fp32.
CubeBackend::CubeBackend(std::string name, DType compute, int32_t cores)
    : ReferenceBackend(kernels::Sums::kF32),
      name_(std::move(name)),
      cores_(cores),
      packer_(compute, ScalePlace::kOnS) {}

uint16_t CubeBackend::Encode(float value) const {
  return compute() == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
}

Result<kernels::Weight> CubeBackend::PackWeight(const kernels::RowSource& source, DType,
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

void CubeBackend::UnpackRow(const kernels::Weight& weight, int64_t n, std::span<float> row) const {
  const auto data = weight.data.as<uint16_t>();
  for (int64_t k = 0; k < weight.k; ++k) {
    const uint16_t bits = data[PlaceOf(n, k, Padded(weight.n), Padded(weight.k))];
    row[static_cast<size_t>(k)] = compute() == DType::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
  }
}

lora::PlanLimits CubeBackend::plan_limits(int32_t) const { return SplitLimitsOf(cores_); }

Status CubeBackend::Run(const kernels::LinearParams& params,
                        std::vector<AlignedVector<float>>* sums) const {
  const int64_t inner = Padded(params.k);
  AlignedVector<uint16_t> x(static_cast<size_t>(params.rows * inner), 0);
  for (int64_t row = 0; row < params.rows; ++row) {
    for (int64_t k = 0; k < params.k; ++k) {
      x[static_cast<size_t>(row * inner + k)] = Encode(params.x[row * params.x_stride + k]);
    }
  }
  LoraCall lora;
  for (size_t part = 0; part < params.parts.size(); ++part) {
    const kernels::LinearPart& p = params.parts[part];
    const int64_t columns = Padded(p.weight->n);
    const int64_t panels = (columns + kBasePanel - 1) / kBasePanel;
    (*sums)[part].assign(static_cast<size_t>(params.rows * columns), 0.0f);
    BaseCall base;
    base.x = &x;
    base.weight = p.weight;
    base.y = &(*sums)[part];
    base.cores = static_cast<int32_t>(std::min<int64_t>(panels, cores_));
    base.program.assign(kBaseWords, 0);
    base.program[kBaseCores] = static_cast<uint32_t>(base.cores);
    base.program[kBaseRows] = static_cast<uint32_t>(params.rows);
    base.program[kBaseInner] = static_cast<uint32_t>(inner);
    base.program[kBaseColumns] = static_cast<uint32_t>(columns);
    LORICA_RETURN_IF_ERROR(RunBase(&base));
    lora.sites.site[part] = p.site;
    lora.sites.shape[part] = {params.k, p.weight->n};
  }
  if (params.plan == nullptr || params.plan->empty()) return OkStatus();
  lora.x = &x;
  lora.y = sums;
  lora.sites.parts = static_cast<int32_t>(params.parts.size());
  lora.lowering.call = &lora.sites;
  lora.lowering.plan = params.plan;
  lora.lowering.segments = params.segments;
  lora.lowering.table = params.table;
  return RunLora(&lora);
}

void CubeBackend::LoraLinear(const kernels::LinearParams& params, const TeamMember& member) const {
  if (member.thread != 0 || params.rows == 0) return;
  const std::lock_guard lock(mutex_);
  std::vector<AlignedVector<float>> sums(params.parts.size());
  const Status status = Run(params, &sums);
  if (!status.ok()) LogError(name_ + ": " + status.ToString());
  for (size_t part = 0; part < params.parts.size(); ++part) {
    const kernels::LinearPart& p = params.parts[part];
    const int64_t columns = Padded(p.weight->n);
    for (int64_t row = 0; row < params.rows; ++row) {
      float* y = p.y + row * p.y_stride;
      for (int64_t n = 0; n < p.weight->n; ++n) {
        float sum = status.ok() ? sums[part][static_cast<size_t>(row * columns + n)]
                                : std::numeric_limits<float>::quiet_NaN();
        if (p.epilogue.bias != nullptr) sum += p.epilogue.bias[n];
        y[n] = p.epilogue.add_to_output ? y[n] + sum : sum;
      }
    }
  }
  if (params.combine == kernels::Combine::kSwiGlu) SwiGlu(kernels::SwiGluOf(params), TeamMember{});
}

}  // namespace lorica::ascend
