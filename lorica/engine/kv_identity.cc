#include "lorica/engine/kv_identity.h"

#include <bit>
#include <cstdint>

namespace lorica::engine {

KvIdentity MakeKvIdentity(const KvIdentityParts& parts) {
  formats::Sha256 hash;
  hash.UpdateSized("lorica k/v identity 1");
  hash.UpdateSized(parts.base_digest);
  hash.UpdateSized(DTypeName(parts.kv_dtype));
  hash.UpdateSized(parts.adapter_digest);
  // Without an adapter a weight multiplies nothing, so it must not part equal K and V.
  const double weight = parts.adapter_digest.empty() ? 1.0 : parts.adapter_weight;
  hash.UpdateU64(std::bit_cast<uint64_t>(weight));
  return {hash.Finish()};
}

}  // namespace lorica::engine
