#include "lorica/model/merged_rows.h"

#include <algorithm>

#include "lorica/base/check.h"
#include "lorica/base/dtype.h"

namespace lorica::model {

MergedRows::MergedRows(const kernels::RowSource* base, const lora::SiteFactors& factors)
    : base_(base), factors_(&factors) {
  LORICA_CHECK(factors.shape.k == base->k() && factors.shape.n == base->n());
  a_.resize(static_cast<size_t>(factors.rank * factors.shape.k));
  DequantizeRow(factors.a.dtype, factors.a.data, static_cast<int64_t>(a_.size()), a_.data());
}

void MergedRows::ReadRow(int64_t n, std::span<float> row) const {
  base_->ReadRow(n, row);
  const auto rank = static_cast<size_t>(factors_->rank);
  std::vector<float> b(rank);
  DequantizeRow(factors_->b.dtype,
                factors_->b.data + ElementsToBytes(factors_->b.dtype, n * factors_->rank),
                factors_->rank, b.data());
  std::vector<double> sum(row.size(), 0.0);
  for (size_t r = 0; r < rank; ++r) {
    const float* a = a_.data() + r * row.size();
    for (size_t k = 0; k < row.size(); ++k) sum[k] += double{b[r]} * a[k];
  }
  for (size_t k = 0; k < row.size(); ++k) {
    row[k] = static_cast<float>(row[k] + factors_->scale * sum[k]);
  }
}

const lora::SiteFactors* FindFactors(const lora::Adapter& adapter, lora::SiteId site) {
  const auto& sites = adapter.sites();
  const auto found = std::lower_bound(
      sites.begin(), sites.end(), site,
      [](const lora::SiteFactors& factors, lora::SiteId id) { return factors.site < id; });
  return found != sites.end() && found->site == site ? &*found : nullptr;
}

}  // namespace lorica::model
