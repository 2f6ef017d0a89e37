#include "lorica/lora/adapter_fit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "lorica/base/thread_priority.h"
#include "lorica/formats/peft_pattern.h"
#include "lorica/formats/reason_list.h"
#include "lorica/lora/module_map.h"

namespace lorica::lora {
namespace {

using formats::AdapterModule;
using formats::BaseCopy;
using formats::QuoteForMessage;
using formats::ReasonList;

std::string Named(const std::string& path) { return "module " + QuoteForMessage(path) + ": "; }

// `value` as the file's type would hold it.
float CastAs(DType dtype, float value) {
  if (dtype == DType::kBF16) return Bf16ToF32(F32ToBf16(value));
  if (dtype == DType::kF16) return F16ToF32(F32ToF16(value));
  return value;
}

// Whether the module's shapes are those of its site.
bool CheckShapes(const AdapterModule& module, SiteShape shape, ReasonList& reasons) {
  if (module.a.shape[1] == shape.k && module.b.shape[0] == shape.n) return true;
  reasons.Add("shape " + ModuleKind(module.path),
              InvalidArgument(Named(module.path) + "expected lora_A [R, " +
                              std::to_string(shape.k) + "] and lora_B [" + std::to_string(shape.n) +
                              ", R], as the base has it, found " + ShapeToString(module.a.shape) +
                              " and " + ShapeToString(module.b.shape)));
  return false;
}

bool CheckRank(const AdapterModule& module, int32_t max_rank, ReasonList& reasons) {
  if (module.rank <= max_rank) return true;
  reasons.Add("rank " + std::to_string(module.rank),
              OutOfRange(Named(module.path) + "rank " + std::to_string(module.rank) +
                         " is over the limit of " + std::to_string(max_rank)));
  return false;
}

// The module's site, if the base has its layer.
std::optional<SiteId> FindSite(const AdapterModule& module, LinearName linear, SiteSpace sites,
                               ReasonList& reasons) {
  if (linear.layer < sites.layers) return sites.Linear(linear.layer, linear.projection);
  reasons.Add("layer", InvalidArgument(Named(module.path) + "expected a layer from 0 to " +
                                       std::to_string(sites.layers - 1) +
                                       ", as the base has them, found layer " +
                                       std::to_string(linear.layer)));
  return std::nullopt;
}

// A copy of the base's embedding or head is harmless; anything else would need another base.
Status CheckCopy(const BaseCopy& copy, const BaseView& base) {
  const SiteSpace sites = base.sites();
  const bool head = copy.path.ends_with("lm_head") && !base.tied_head();
  const SiteId site = head ? sites.Head() : sites.Embedding();
  const SiteShape shape = base.Shape(site);
  const std::string where = "tensor " + QuoteForMessage(copy.name) + ": ";
  if (copy.view.shape != Shape{shape.n, shape.k}) {
    return Unimplemented(where + "expected shape " + ShapeToString({shape.n, shape.k}) +
                         ", as the base has it, found " + ShapeToString(copy.view.shape) +
                         " (rows for added tokens are not served)");
  }
  std::vector<float> ours(static_cast<size_t>(shape.k));
  std::vector<float> theirs(static_cast<size_t>(shape.k));
  for (int64_t row = 0; row < shape.n; ++row) {
    GiveWay();
    base.BaseRow(site, row, ours);
    DequantizeRow(copy.view.dtype, copy.view.row(row), shape.k, theirs.data());
    for (size_t i = 0; i < ours.size(); ++i) {
      if (theirs[i] == ours[i] || theirs[i] == CastAs(copy.view.dtype, ours[i])) continue;
      return Unimplemented(where +
                           "expected the base's own values (a replacement is not served), "
                           "found another one in row " +
                           std::to_string(row));
    }
  }
  return OkStatus();
}

}  // namespace

AdapterFit FitAdapter(const formats::AdapterFiles& files, const BaseView* base, int32_t max_rank) {
  AdapterFit fit;
  ReasonList reasons;
  std::vector<std::string> paths;
  for (const AdapterModule& module : files.modules()) paths.push_back(module.path);
  const ModuleMap map = MapModules(paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    const AdapterModule& module = files.modules()[i];
    if (!map.linears[i]) {
      reasons.Add("module " + ModuleKind(module.path),
                  Unimplemented(Named(module.path) +
                                "expected one of the linears q_proj, k_proj, v_proj, o_proj, "
                                "gate_proj, up_proj and down_proj of a layer, found " +
                                std::string(DescribeUnserved(module.path))));
      continue;
    }
    bool fits = CheckRank(module, max_rank, reasons);
    if (base == nullptr) continue;
    const std::optional<SiteId> site = FindSite(module, *map.linears[i], base->sites(), reasons);
    if (!site) continue;
    fits &= CheckShapes(module, base->Shape(*site), reasons);
    if (fits) fit.modules.push_back({*site, &module});
  }
  for (const BaseCopy& copy : files.base_copies()) {
    if (base == nullptr) break;
    if (Status status = CheckCopy(copy, *base); !status.ok()) reasons.Add(std::move(status));
  }
  std::sort(fit.modules.begin(), fit.modules.end(),
            [](const FittedModule& x, const FittedModule& y) { return x.site < y.site; });
  fit.reasons = std::move(reasons).Take();
  return fit;
}

}  // namespace lorica::lora
