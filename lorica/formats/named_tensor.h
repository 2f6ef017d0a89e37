// A tensor as a container file names it. The bytes belong to the file's reader.
#pragma once

#include <string>

#include "lorica/base/tensor.h"

namespace lorica::formats {

struct NamedTensor {
  std::string name;
  TensorView view;
};

}  // namespace lorica::formats
