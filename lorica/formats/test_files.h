// Files for tests: a temporary folder that removes itself, a safetensors writer, and tiny PEFT
// adapters. Tests only; one thread.
#pragma once

#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lorica/base/dtype.h"
#include "lorica/base/tensor.h"

namespace lorica::formats::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lorica-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

struct TestTensor {
  std::string name;
  std::string dtype;  // as safetensors spells it
  Shape shape;
  std::string bytes;
};

inline TestTensor F32Tensor(std::string name, Shape shape, const std::vector<float>& values) {
  const auto* data = reinterpret_cast<const char*>(values.data());
  return {std::move(name), "F32", std::move(shape), std::string(data, values.size() * 4)};
}

inline TestTensor Bf16Tensor(std::string name, Shape shape, const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t bits = F32ToBf16(value);
    bytes.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return {std::move(name), "BF16", std::move(shape), std::move(bytes)};
}

inline TestTensor F16Tensor(std::string name, Shape shape, const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t bits = F32ToF16(value);
    bytes.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return {std::move(name), "F16", std::move(shape), std::move(bytes)};
}

// `elements` small numbers, none zero, that depend on `seed` and are exact in bf16.
inline std::vector<float> SmallValues(int64_t elements, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(elements));
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>((state >> 24) & 127) - 63.5f) / 256.0f;
  }
  return values;
}

inline std::string SafetensorsBytes(const std::vector<TestTensor>& tensors,
                                    const std::string& metadata = "") {
  std::string header = "{";
  std::string data;
  if (!metadata.empty()) header += "\"__metadata__\":" + metadata;
  for (const TestTensor& tensor : tensors) {
    if (header.size() > 1) header += ',';
    std::string shape;
    for (const int64_t dim : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    }
    header += "\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  std::string bytes;
  for (uint64_t size = header.size(), i = 0; i < 8; ++i) {
    bytes += static_cast<char>((size >> (8 * i)) & 0xff);
  }
  return bytes + header + data;
}

// The tensor's name as PEFT writes it: `part` is "lora_A.weight" or the like.
inline std::string PeftName(const std::string& module, const std::string& part) {
  return "base_model.model." + module + "." + part;
}

// lora_A [rank, k] and lora_B [n, rank] of one module.
inline std::vector<TestTensor> LoraPair(const std::string& module, int64_t rank, int64_t k,
                                        int64_t n, uint32_t seed = 1) {
  return {F32Tensor(PeftName(module, "lora_A.weight"), {rank, k}, SmallValues(rank * k, seed)),
          F32Tensor(PeftName(module, "lora_B.weight"), {n, rank}, SmallValues(n * rank, seed + 7))};
}

// Writes FOLDER/adapter_config.json and FOLDER/adapter_model.safetensors.
inline void WriteAdapter(const std::string& folder, const std::string& config,
                         const std::vector<TestTensor>& tensors) {
  WriteFile(folder + "/adapter_config.json", config);
  WriteFile(folder + "/adapter_model.safetensors", SafetensorsBytes(tensors));
}

}  // namespace lorica::formats::testing
