#include "lorica/lora/adapter_loader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lorica/base/thread_priority.h"
#include "lorica/formats/adapter_files.h"
#include "lorica/formats/reason_list.h"
#include "lorica/lora/adapter_fit.h"

namespace lorica::lora {
namespace {

using formats::AdapterFiles;
using formats::AdapterModule;

constexpr int64_t kBlock = 2048;
constexpr int64_t kCopyPiece = 128 << 10;

int64_t AlignedBytes(const TensorView& view, DType kept) {
  const int64_t bytes = ElementsToBytes(kept, view.elements());
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Writes `view` as `kept`, which holds each of its values exactly.
void WriteFactor(const TensorView& view, DType kept, std::byte* destination) {
  const int64_t elements = view.elements();
  if (view.dtype == kept) {
    for (int64_t done = 0; done < view.bytes(); done += kCopyPiece) {
      const int64_t n = std::min(kCopyPiece, view.bytes() - done);
      std::memcpy(destination + done, view.data + done, static_cast<size_t>(n));
      GiveWay();
    }
    return;
  }
  std::array<float, kBlock> values;
  std::array<uint16_t, kBlock> halves;
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t n = std::min(kBlock, elements - start);
    DequantizeRow(view.dtype, view.data + ElementsToBytes(view.dtype, start), n, values.data());
    std::byte* out = destination + ElementsToBytes(kept, start);
    if (kept == DType::kF32) {
      std::memcpy(out, values.data(), static_cast<size_t>(n) * sizeof(float));
      continue;
    }
    std::transform(values.begin(), values.begin() + n, halves.begin(), [kept](float value) {
      return kept == DType::kBF16 ? F32ToBf16(value) : F32ToF16(value);
    });
    std::memcpy(out, halves.data(), static_cast<size_t>(n) * sizeof(uint16_t));
    GiveWay();
  }
}

Result<Adapter::Content> Build(const AdapterFiles& files, const AdapterFit& fit,
                               const LoadOptions& options) {
  int64_t bytes = 0;
  for (const FittedModule& fitted : fit.modules) {
    bytes += AlignedBytes(fitted.module->a, fitted.module->a_narrowest);
    bytes += AlignedBytes(fitted.module->b, fitted.module->b_narrowest);
  }
  Adapter::Content content;
  LORICA_ASSIGN_OR_RETURN(content.storage,
                          Buffer::Allocate(bytes, MemoryTag::kAdapterCold, options.ledger));
  content.digest = options.known_digest.empty() ? files.Digest() : options.known_digest;
  std::byte* at = content.storage.data();
  const auto place = [&at](const TensorView& view, DType kept) {
    WriteFactor(view, kept, at);
    const Factor factor{at, kept};
    at += AlignedBytes(view, kept);
    return factor;
  };
  for (const FittedModule& fitted : fit.modules) {
    const AdapterModule& module = *fitted.module;
    content.sites.push_back({.site = fitted.site,
                             .rank = static_cast<int32_t>(module.rank),
                             .shape = {module.a.shape[1], module.b.shape[0]},
                             .a = place(module.a, module.a_narrowest),
                             .b = place(module.b, module.b_narrowest),
                             .scale = module.scale});
  }
  return content;
}

std::vector<Status> AllReasons(const AdapterFiles& files, const AdapterFit& fit) {
  std::vector<Status> reasons = files.reasons();
  reasons.insert(reasons.end(), fit.reasons.begin(), fit.reasons.end());
  return reasons;
}

}  // namespace

Result<std::shared_ptr<const Adapter>> LoadAdapter(const std::string& path, const BaseView& base,
                                                   const LoadOptions& options,
                                                   std::vector<std::string>* warnings) {
  LORICA_ASSIGN_OR_RETURN(const AdapterFiles files,
                          AdapterFiles::Open(path, options.max_file_bytes));
  if (warnings != nullptr) {
    warnings->insert(warnings->end(), files.warnings().begin(), files.warnings().end());
  }
  const AdapterFit fit = FitAdapter(files, &base, options.max_rank);
  LORICA_RETURN_IF_ERROR(formats::FirstReason(AllReasons(files, fit)).WithContext(path));
  Result<Adapter::Content> content = Build(files, fit, options);
  if (!content.ok()) return content.status().WithContext(path);
  return std::shared_ptr<const Adapter>(std::make_shared<Adapter>(*std::move(content)));
}

AdapterReport InspectAdapter(const std::string& path, const BaseView* base,
                             const LoadOptions& options) {
  AdapterReport report;
  const Result<AdapterFiles> files = AdapterFiles::Open(path, options.max_file_bytes);
  if (!files.ok()) {
    report.reasons.push_back(files.status());
    return report;
  }
  report.reasons = AllReasons(*files, FitAdapter(*files, base, options.max_rank));
  report.warnings = files->warnings();
  report.base_model = files->config().base_model;
  if (report.reasons.empty()) report.digest = files->Digest();
  for (const AdapterModule& module : files->modules()) {
    report.modules.push_back({.path = module.path,
                              .rank = module.rank,
                              .alpha = module.alpha,
                              .scale = module.scale,
                              .k = module.a.shape[1],
                              .n = module.b.shape[0],
                              .file_dtype_a = module.a.dtype,
                              .file_dtype_b = module.b.dtype,
                              .kept_dtype_a = module.a_narrowest,
                              .kept_dtype_b = module.b_narrowest});
  }
  return report;
}

}  // namespace lorica::lora
