#include "lorica/lora/site.h"

#include <array>

namespace lorica::lora {

std::string_view ProjectionName(Projection projection) {
  static constexpr std::array<std::string_view, kProjections> kNames = {
      "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  return kNames[static_cast<size_t>(projection)];
}

std::string SiteSpace::Name(SiteId site) const {
  if (site == Embedding()) return "embed_tokens";
  if (site == Head()) return "lm_head";
  return "layer " + std::to_string(Layer(site)) + " " +
         std::string(ProjectionName(ProjectionOf(site)));
}

}  // namespace lorica::lora
