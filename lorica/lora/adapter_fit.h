// AdapterFit: where the modules of an adapter's files go in a base model, and every reason why one
// does not fit. A plain value with pointers into the files that it was made from. Safe on any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/formats/adapter_files.h"
#include "lorica/lora/base_view.h"

namespace lorica::lora {

struct FittedModule {
  SiteId site;
  const formats::AdapterModule* module = nullptr;
};

struct AdapterFit {
  std::vector<FittedModule> modules;  // ascending by site, each once
  // Unserved modules, layers and shapes that the base lacks, ranks over the limit, weights that
  // differ from the base's. Modules of one kind with one fault are one reason.
  std::vector<Status> reasons;
};

// `base` may be null: then modules() is empty, and names and ranks alone are checked.
AdapterFit FitAdapter(const formats::AdapterFiles& files, const BaseView* base, int32_t max_rank);

}  // namespace lorica::lora
