// The words of the base product's program (base_linear.cpp). C++17, no standard library.
#pragma once

#include <stdint.h>

namespace lorica {
namespace ascend {

enum BaseWord : uint32_t { kBaseCores, kBaseRows, kBaseInner, kBaseColumns, kBaseWords = 8 };
// W lies in panels of 128 columns (the last one of what is left), each K / 16 rows of fractals, 16
// columns x 16 inputs.
constexpr uint32_t kBasePanel = 128;

}  // namespace ascend
}  // namespace lorica
