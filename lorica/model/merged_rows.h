// MergedRows: rows of a base weight with one adapter's product added: W + s * B * A, summed in
// double and rounded to f32 once. Points at the rows and the factors, which must outlive it; any
// thread may read.
#pragma once

#include <span>
#include <vector>

#include "lorica/kernels/params.h"
#include "lorica/lora/adapter.h"

namespace lorica::model {

class MergedRows final : public kernels::RowSource {
 public:
  // `factors` have the shape of `base`: A [R, K], B [N, R].
  MergedRows(const kernels::RowSource* base, const lora::SiteFactors& factors);

  int64_t n() const override { return base_->n(); }
  int64_t k() const override { return base_->k(); }
  void ReadRow(int64_t n, std::span<float> row) const override;

 private:
  const kernels::RowSource* base_;
  const lora::SiteFactors* factors_;
  std::vector<float> a_;  // [R, K]
};

// What `adapter` does at `site`; null where it does nothing.
const lora::SiteFactors* FindFactors(const lora::Adapter& adapter, lora::SiteId site);

}  // namespace lorica::model
