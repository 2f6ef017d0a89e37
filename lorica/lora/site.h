// Site: a linear layer that an adapter may act on, (layer, projection) with K inputs and N
// outputs. Sites are dense indices, so that a kernel finds an adapter's weights by index alone.
// Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace lorica::lora {

enum class Projection : uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown };
inline constexpr int kProjections = 7;

// "q_proj"
std::string_view ProjectionName(Projection projection);

// Dense index of a site: the seven projections of layer 0, of layer 1, ..., then the embedding
// and the output head.
struct SiteId {
  int32_t index = 0;
  bool operator==(const SiteId&) const = default;
  auto operator<=>(const SiteId&) const = default;
};

// Linears that read the same x are one call and share one plan.
enum class CallKind : uint8_t { kQkv, kO, kGateUp, kDown, kHead };
inline constexpr int kCallKinds = 5;
inline constexpr int kMaxCallSites = 3;

struct CallSiteIds {
  int32_t count = 0;
  std::array<SiteId, kMaxCallSites> site;
};

// The sites of a model of `layers` layers.
struct SiteSpace {
  int32_t layers = 0;

  SiteId Linear(int32_t layer, Projection projection) const {
    return {layer * kProjections + static_cast<int32_t>(projection)};
  }
  SiteId Embedding() const { return {layers * kProjections}; }
  SiteId Head() const { return {layers * kProjections + 1}; }
  int32_t count() const { return layers * kProjections + 2; }

  bool IsLinear(SiteId site) const { return site.index < layers * kProjections; }
  int32_t Layer(SiteId site) const { return site.index / kProjections; }
  Projection ProjectionOf(SiteId site) const {
    return static_cast<Projection>(site.index % kProjections);
  }
  // The sites of one call, in the order of its parts. `layer` is ignored for kHead.
  CallSiteIds SitesOf(CallKind call, int32_t layer) const;
  // "layer 3 q_proj", "embed_tokens", "lm_head"
  std::string Name(SiteId site) const;
};

struct SiteShape {
  int64_t k = 0;  // inputs
  int64_t n = 0;  // outputs
  bool operator==(const SiteShape&) const = default;
};

}  // namespace lorica::lora
