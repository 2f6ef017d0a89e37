// PageKeys: what a full page of K and V holds, as a hash: of the K/V identity and of all tokens up
// to the page's end. Equal keys mean equal bits, so that pages may be shared by key. Owned by its
// sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lorica/engine/kv_identity.h"
#include "lorica/formats/sha256.h"

namespace lorica::engine {

using PageKey = formats::Sha256Digest;

class PageKeys {
 public:
  explicit PageKeys(const KvIdentity& identity) : identity_(identity) {}

  // Keys of all full pages of `tokens`, of which those keyed before are a prefix.
  void Extend(std::span<const int32_t> tokens);
  // Room for `pages`, so that Extend need not allocate.
  void Reserve(int64_t pages) { keys_.reserve(static_cast<size_t>(pages)); }
  const std::vector<PageKey>& keys() const { return keys_; }

 private:
  KvIdentity identity_;
  formats::Sha256 hash_;       // kept, since to make one allocates
  std::vector<PageKey> keys_;  // by page
};

}  // namespace lorica::engine
