#include "lorica/model/kv_pages.h"

#include <algorithm>
#include <limits>
#include <string>

namespace lorica::model {

Result<KvPages> KvPages::Create(const kernels::KvLayout& layout, int64_t budget_bytes,
                                MemoryLedger* ledger) {
  const int64_t pages =
      std::min<int64_t>(budget_bytes / layout.PageBytes(), std::numeric_limits<int32_t>::max());
  if (pages < 1) {
    return ResourceExhausted("--kv-bytes: expected at least one page of " +
                             std::to_string(layout.PageBytes()) + " bytes, found a budget of " +
                             std::to_string(budget_bytes));
  }
  KvPages result;
  result.layout_ = layout;
  result.pages_ = static_cast<int32_t>(pages);
  LORICA_ASSIGN_OR_RETURN(
      result.storage_, Buffer::Allocate(pages * layout.PageBytes(), MemoryTag::kKvPages, ledger));
  return result;
}

}  // namespace lorica::model
