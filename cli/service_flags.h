// The flags that every serving command shares, under vLLM's names where the meaning is the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/server/service.h"

namespace CLI {
class App;
}

namespace lorica::cli {

struct ServiceFlags {
  server::ServiceOptions service;
  std::string dtype = "auto";
  std::string weights = "auto";
  std::vector<std::string> lora_modules;  // NAME=PATH
  bool enable_lora = false;               // accepted for vLLM's command lines; always on
  int32_t max_loras = 0;                  // accepted; tenants in a step are not limited
};

// Adds MODEL and the shared flags to a command.
void AddServiceFlags(CLI::App* command, ServiceFlags* flags);

// Opens what the flags name, showing progress. The Status is ready to print.
Result<std::unique_ptr<server::Service>> OpenService(ServiceFlags* flags);

}  // namespace lorica::cli
