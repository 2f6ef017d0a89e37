#include "lorica/lora/adapter.h"

#include <algorithm>
#include <utility>

namespace lorica::lora {

Adapter::Adapter(Content content) : content_(std::move(content)) {
  for (size_t i = 0; i < content_.sites.size(); ++i) {
    const SiteFactors& factors = content_.sites[i];
    LORICA_CHECK(factors.rank > 0);
    LORICA_CHECK(i == 0 || content_.sites[i - 1].site < factors.site);
    max_rank_ = std::max(max_rank_, factors.rank);
  }
}

}  // namespace lorica::lora
