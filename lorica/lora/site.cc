#include "lorica/lora/site.h"

#include <array>

#include "lorica/base/check.h"

namespace lorica::lora {

std::string_view ProjectionName(Projection projection) {
  static constexpr std::array<std::string_view, kProjections> kNames = {
      "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  return kNames[static_cast<size_t>(projection)];
}

CallSiteIds SiteSpace::SitesOf(CallKind call, int32_t layer) const {
  const auto at = [&](Projection projection) { return Linear(layer, projection); };
  switch (call) {
    case CallKind::kQkv:
      return {3, {at(Projection::kQ), at(Projection::kK), at(Projection::kV)}};
    case CallKind::kO:
      return {1, {at(Projection::kO)}};
    case CallKind::kGateUp:
      return {2, {at(Projection::kGate), at(Projection::kUp)}};
    case CallKind::kDown:
      return {1, {at(Projection::kDown)}};
    case CallKind::kHead:
      return {1, {Head()}};
  }
  LORICA_CHECK(false);
  return {};
}

std::string SiteSpace::Name(SiteId site) const {
  if (site == Embedding()) return "embed_tokens";
  if (site == Head()) return "lm_head";
  return "layer " + std::to_string(Layer(site)) + " " +
         std::string(ProjectionName(ProjectionOf(site)));
}

}  // namespace lorica::lora
