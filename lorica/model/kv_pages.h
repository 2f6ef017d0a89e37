// KvPages: the memory of all K and V pages, one arena of a fixed budget taken at start. Page ids
// are handed out by the engine's kv_allocator; kernels write and read pages by id. Owned by the
// engine.
#pragma once

#include <cstdint>

#include "lorica/base/buffer.h"
#include "lorica/kernels/params.h"

namespace lorica::model {

class KvPages {
 public:
  // As many pages as `budget_bytes` holds, at least one. RESOURCE_EXHAUSTED with both figures.
  static Result<KvPages> Create(const kernels::KvLayout& layout, int64_t budget_bytes,
                                MemoryLedger* ledger);

  const kernels::KvLayout& layout() const { return layout_; }
  int32_t pages() const { return pages_; }
  std::byte* data() { return storage_.data(); }

 private:
  KvPages() = default;

  kernels::KvLayout layout_;
  int32_t pages_ = 0;
  Buffer storage_;
};

}  // namespace lorica::model
