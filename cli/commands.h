// The commands of the program. Each adds itself to the command line and leaves its exit status in
// `exit_code` when it was the one that was called.
#pragma once

namespace CLI {
class App;
}

namespace lorica::cli {

void AddRunCommand(CLI::App* app, int* exit_code);
void AddRunBatchCommand(CLI::App* app, int* exit_code);
void AddServeCommand(CLI::App* app, int* exit_code);
void AddInspectCommand(CLI::App* app, int* exit_code);
void AddMergeCommand(CLI::App* app, int* exit_code);
void AddBenchCommand(CLI::App* app, int* exit_code);

}  // namespace lorica::cli
