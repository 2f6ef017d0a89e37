// AdapterFiles: a PEFT adapter folder, read whole: the config, the factors paired by module, their
// scales, and every reason why Lorica would not serve the adapter exactly. Owns the bytes of its
// views. Immutable after Open, any thread. Move-only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/base/tensor.h"
#include "lorica/formats/model_files.h"
#include "lorica/formats/peft_config.h"

namespace lorica::formats {

// y += scale * (x * A^T) * B^T at one module.
struct AdapterModule {
  std::string path;    // in the tree that was trained: "model.layers.0.self_attn.q_proj"
  std::string a_name;  // the tensors' names in the file
  std::string b_name;
  TensorView a;                     // [R, K], f32, f16 or bf16
  TensorView b;                     // [N, R], likewise
  DType a_narrowest = DType::kF32;  // FactorScan::narrowest
  DType b_narrowest = DType::kF32;
  int64_t rank = 0;
  double alpha = 0.0;
  double scale = 0.0;
};

// A weight beside the factors that is harmless exactly when it equals the base's.
struct BaseCopy {
  std::string path;  // "model.embed_tokens" or "lm_head"
  std::string name;
  TensorView view;
};

class AdapterFiles {
 public:
  // Fails as a whole where there is no adapter to speak of: no folder, no config, no readable
  // safetensors. Otherwise each fault is one of reasons(), and the factors that passed are listed.
  // `file_bytes` limits each file.
  static Result<AdapterFiles> Open(const std::string& folder,
                                   int64_t file_bytes = int64_t{8} << 30);

  const PeftConfig& config() const { return config_; }
  // Ascending by path.
  const std::vector<AdapterModule>& modules() const { return modules_; }
  const std::vector<BaseCopy>& base_copies() const { return base_copies_; }
  // Why the adapter is not served: the config's refusals and the tensors'. Empty: it is, if it
  // fits the base. Many tensors with one fault are one reason.
  const std::vector<Status>& reasons() const { return reasons_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // SHA-256, 64 hex digits, of each module's path, scale, and factors (dtype, shape, bytes): all
  // that changes the result. Names of prefixes, files and inert fields do not count.
  std::string Digest() const;

 private:
  friend class AdapterReader;
  AdapterFiles(PeftConfig config, SafetensorsSet tensors);
  // Open, but std::bad_alloc leaves it.
  static Result<AdapterFiles> OpenFolder(const std::string& folder, int64_t file_bytes);

  PeftConfig config_;
  SafetensorsSet tensors_;
  std::vector<AdapterModule> modules_;
  std::vector<BaseCopy> base_copies_;
  std::vector<Status> reasons_;
  std::vector<std::string> warnings_;
};

}  // namespace lorica::formats
