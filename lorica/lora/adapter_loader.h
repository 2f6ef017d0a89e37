// The adapter loader: an adapter folder into an immutable Adapter that fits a base model, or every
// reason why not. Reads files and allocates: for loader threads, never the engine's. Functions
// without state, safe on any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "lorica/base/memory_tag.h"
#include "lorica/base/status.h"
#include "lorica/lora/adapter.h"
#include "lorica/lora/base_view.h"

namespace lorica::lora {

struct LoadOptions {
  int32_t max_rank = std::numeric_limits<int32_t>::max();
  int64_t max_file_bytes = int64_t{8} << 30;  // of each file
  MemoryLedger* ledger = nullptr;             // may be null; outlives the adapter
  // The digest of these files, where their FileIdentity says that they have not changed since it
  // was taken: it is not computed again. Empty: unknown.
  std::string known_digest = {};
};

// Reads `path`, checks it against `base` and keeps each factor in the narrowest of bf16, f16 and
// f32 that holds it exactly; the scale is not folded in. Fails with the first reason of
// InspectAdapter, opened by the path. Warnings, one sentence each, are added to `warnings`, which
// may be null.
Result<std::shared_ptr<const Adapter>> LoadAdapter(const std::string& path, const BaseView& base,
                                                   const LoadOptions& options,
                                                   std::vector<std::string>* warnings);

struct ModuleReport {
  std::string path;
  int64_t rank = 0;
  double alpha = 0.0;
  double scale = 0.0;
  int64_t k = 0;
  int64_t n = 0;
  DType file_dtype_a = DType::kF32;
  DType file_dtype_b = DType::kF32;
  DType kept_dtype_a = DType::kF32;
  DType kept_dtype_b = DType::kF32;
};

struct AdapterReport {
  std::vector<Status> reasons;  // why it would not load; empty: it would
  std::vector<std::string> warnings;
  std::vector<ModuleReport> modules;  // those without a fault, ascending by path
  std::string digest;                 // empty when there are reasons
  std::string base_model;             // as the config has it; informational
};

// What the folder holds and every reason against it; without a `base`, those
// of the files, names and ranks alone.
AdapterReport InspectAdapter(const std::string& path, const BaseView* base,
                             const LoadOptions& options);

}  // namespace lorica::lora
