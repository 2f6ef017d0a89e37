// ModuleMap: which linear of a Llama-family decoder each module path of an adapter names. Paths
// may come from the causal model, the headless one or a multimodal wrapper: one prefix is taken
// off every path of a file, or none is. Pure functions and plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/lora/site.h"

namespace lorica::lora {

struct LinearName {
  int32_t layer = 0;
  Projection projection = Projection::kQ;
  bool operator==(const LinearName&) const = default;
};

struct ModuleMap {
  // What stands before "layers.N" in the file: "model." of a causal model, "" of a headless one.
  std::string_view prefix;
  // For each path, nothing where it is no linear under that prefix.
  std::vector<std::optional<LinearName>> linears;
};

// Takes the one prefix that maps every path; where none does, the one that maps most, so that the
// rest can be named. The prefixes exclude each other: no path maps under two.
ModuleMap MapModules(const std::vector<std::string>& paths);

// What a path is that maps to no linear, as the end of "found …".
std::string_view DescribeUnserved(std::string_view path);

// The path with each number replaced by #: modules that differ by their layer alone are one kind.
std::string ModuleKind(std::string_view path);

}  // namespace lorica::lora
