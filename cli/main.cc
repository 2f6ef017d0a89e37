#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/exit_codes.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Lorica serves one base language model to many tenants at once, each through its\n"
      "own LoRA adapter, in the same batch.");
  app.name("lorica");
  app.require_subcommand(1);
  app.get_formatter()->column_width(38);
  app.set_version_flag("--version", "lorica 0.1.0");
  app.footer("LORICA_ISA=scalar|sse4|avx2|avx512 forces an instruction set.");
  int exit_code = lorica::cli::kServed;
  lorica::cli::AddServeCommand(&app, &exit_code);
  lorica::cli::AddRunCommand(&app, &exit_code);
  lorica::cli::AddRunBatchCommand(&app, &exit_code);
  lorica::cli::AddInspectCommand(&app, &exit_code);
  lorica::cli::AddMergeCommand(&app, &exit_code);
  lorica::cli::AddBenchCommand(&app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? lorica::cli::kServed : lorica::cli::kUsage;
  }
  return exit_code;
}
