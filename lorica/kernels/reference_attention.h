// Attention and the K/V write of ReferenceBackend: the plain loops of their definition. Pure
// functions; called inside a region, on every thread with the same Params.
#pragma once

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/kernels/params.h"

namespace lorica::kernels {

void ReferenceKvWrite(const KvWriteParams& params, const TeamMember& member);
void ReferenceAttention(Sums sums, const AttentionParams& params, const TeamMember& member);

}  // namespace lorica::kernels
