// For tests: a tiny model of tests/fixtures on one backend, with its four adapters in slots 0 to 3
// and room for two more. Tests only; one thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lorica/lora/adapter_loader.h"
#include "lorica/model/test_driver.h"

namespace lorica::model::testing {

inline constexpr const char* kAdapters[] = {"plain", "rslora", "pattern", "mlp"};
inline constexpr int32_t kSlots = 6;

inline std::string Folder(const std::string& family) { return "tests/fixtures/tiny/" + family; }

// One model on one backend, with its four adapters in slots 0 to 3.
class World {
 public:
  World(const std::string& family, std::unique_ptr<kernels::Backend> backend, int threads,
        const ModelOptions& options = {.compute_type = ComputeType::kFloat32})
      : context_(threads), backend_(std::move(backend)) {
    const std::string path =
        family == "llama_gguf" ? Folder(family) + "/model.gguf" : Folder(family);
    auto model = Model::Load(path, options, backend_.get(), &context_);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    if (!model.ok()) return;
    model_ = std::move(model).value();
    adapters_ = std::make_unique<TestAdapters>(*model_, kSlots);
    for (int32_t slot = 0; slot < 4; ++slot) {
      auto adapter =
          lora::LoadAdapter(Folder(family) + "/adapters/" + kAdapters[slot], *model_, {}, nullptr);
      EXPECT_TRUE(adapter.ok()) << adapter.status().ToString();
      if (!adapter.ok()) return;
      adapters_->Install({slot}, **adapter);
    }
    loaded_ = true;
  }

  bool loaded() const { return loaded_; }
  const Model& model() const { return *model_; }
  MachineContext& context() { return context_; }
  TestAdapters& adapters() { return *adapters_; }
  void Run(std::vector<Job>* jobs, const DriveOptions& options) {
    Driver(*model_, adapters_->table(), &context_).Run(jobs, options);
  }

 private:
  MachineContext context_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<TestAdapters> adapters_;
  bool loaded_ = false;
};

}  // namespace lorica::model::testing
