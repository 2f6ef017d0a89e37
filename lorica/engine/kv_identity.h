// KvIdentity: what decides the bits of K and V at a position beside the tokens before it: the base
// model, the type of the pages, the adapter that acts and its effective scale. Pages are keyed by
// it, never by a name (a name may be published anew, and two names may be one adapter). A value.
#pragma once

#include <string>

#include "lorica/base/dtype.h"
#include "lorica/formats/sha256.h"

namespace lorica::engine {

struct KvIdentity {
  formats::Sha256Digest digest{};
  bool operator==(const KvIdentity&) const = default;
};

struct KvIdentityParts {
  std::string base_digest;
  DType kv_dtype = DType::kF32;
  std::string adapter_digest;   // empty: the base model acts alone
  double adapter_weight = 1.0;  // of the request, on top of the scale that the digest covers
};
KvIdentity MakeKvIdentity(const KvIdentityParts& parts);

}  // namespace lorica::engine
