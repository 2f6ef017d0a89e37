// Adapter: the immutable content of one adapter file set, in host memory (the cold tier), named
// by the SHA-256 of its content. Made by adapter_loader, then shared read-only by any thread
// through shared_ptr<const Adapter>.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lorica/base/buffer.h"
#include "lorica/base/tensor.h"
#include "lorica/lora/site.h"

namespace lorica::lora {

// A dense row-major factor inside Adapter::storage. dtype is bf16, f16 or f32: the narrowest that
// holds every value of the file exactly.
struct Factor {
  const std::byte* data = nullptr;
  DType dtype = DType::kBF16;
};

// What an adapter does at one site: y += scale * (x * A^T) * B^T.
struct SiteFactors {
  SiteId site;
  int32_t rank = 0;
  SiteShape shape;
  Factor a;            // [rank, K]
  Factor b;            // [N, rank]
  double scale = 1.0;  // alpha / rank or alpha / sqrt(rank), as PEFT resolves both
};

class Adapter {
 public:
  struct Content {
    std::string digest;              // 64 hex digits
    std::vector<SiteFactors> sites;  // ascending by site, each once; factors point into storage
    Buffer storage;
  };
  explicit Adapter(Content content);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const std::string& digest() const { return content_.digest; }
  const std::vector<SiteFactors>& sites() const { return content_.sites; }
  int32_t max_rank() const { return max_rank_; }
  int64_t bytes() const { return content_.storage.bytes(); }

 private:
  Content content_;
  int32_t max_rank_ = 0;
};

}  // namespace lorica::lora
