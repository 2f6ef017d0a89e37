// BaseView: what the LoRA core may ask of the base model: shapes, whether the head is tied, a row
// of a base weight. `model` implements it, so that `lora` needs no upward include. The model owns
// it; any thread may call it once the model is loaded.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lorica/lora/site.h"

namespace lorica::lora {

class BaseView {
 public:
  virtual ~BaseView() = default;

  virtual SiteSpace sites() const = 0;
  // K and N of a site. The embedding is [vocab, width] as N, K; so is the head.
  virtual SiteShape Shape(SiteId site) const = 0;
  // True when the head reads the embedding's weights.
  virtual bool tied_head() const = 0;
  // Row `n` (one output, K values) of the site's base weight, as f32.
  virtual void BaseRow(SiteId site, int64_t n, std::span<float> row) const = 0;
  // SHA-256 of the base's content, 64 hex digits.
  virtual const std::string& digest() const = 0;
};

}  // namespace lorica::lora
