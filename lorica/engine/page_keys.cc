#include "lorica/engine/page_keys.h"

#include "lorica/kernels/params.h"

namespace lorica::engine {

void PageKeys::Extend(std::span<const int32_t> tokens) {
  const size_t pages = tokens.size() / kernels::kPageTokens;
  while (keys_.size() < pages) {
    // A chain: a key names everything before its page too. The identity is in every link, so that
    // it could change inside a prompt.
    hash_.Update(std::as_bytes(std::span(identity_.digest)));
    if (!keys_.empty()) hash_.Update(std::as_bytes(std::span(keys_.back())));
    hash_.Update(
        std::as_bytes(tokens.subspan(keys_.size() * kernels::kPageTokens, kernels::kPageTokens)));
    keys_.push_back(hash_.Finish());
  }
}

}  // namespace lorica::engine
