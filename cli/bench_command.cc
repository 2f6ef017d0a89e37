#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_codes.h"

namespace lorica::cli {

void AddBenchCommand(CLI::App* app, int* exit_code) {
  CLI::App* command =
      app->add_subcommand("bench", "how fast this machine is, and how far from its own limit");
  command->require_subcommand(1);
}

}  // namespace lorica::cli
