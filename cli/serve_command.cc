#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/progress.h"
#include "cli/service_flags.h"
#include "lorica/server/http_server.h"

namespace lorica::cli {
namespace {

struct ServeFlags {
  ServiceFlags service;
  server::HttpOptions http;
};

int Serve(ServeFlags* flags) {
  Result<std::unique_ptr<server::Service>> service = OpenService(&flags->service);
  if (!service.ok()) {
    PrintError(service.status().message());
    return kNothingServed;
  }
  Result<std::unique_ptr<server::HttpServer>> http =
      server::HttpServer::Listen(flags->http, &(*service)->api(), &(*service)->admin());
  if (!http.ok()) {
    PrintError(http.status().message());
    return kNothingServed;
  }
  (*service)->StartThread();
  std::fprintf(stderr, "lorica: serving %s and %zu adapters on http://%s:%d\n",
               (*service)->api().base_name().c_str(), (*service)->engine().registry().List().size(),
               flags->http.host.c_str(), (*http)->port());
  (*http)->Run();
  (*service)->Stop();
  return kServed;
}

}  // namespace

void AddServeCommand(CLI::App* app, int* exit_code) {
  CLI::App* command =
      app->add_subcommand("serve", "an OpenAI-compatible server; the adapter is a request's model");
  auto flags = std::make_shared<ServeFlags>();
  AddServiceFlags(command, &flags->service);
  command->add_option("--host", flags->http.host, "address to listen on")
      ->capture_default_str()
      ->group("Server");
  command->add_option("--port", flags->http.port, "port to listen on; 0 takes any free one")
      ->capture_default_str()
      ->group("Server");
  command->add_option("--api-key", flags->http.api_key, "bearer token that requests must carry")
      ->group("Server");
  command
      ->add_flag("--watch-adapters", flags->service.service.watch_adapters,
                 "take in what comes to the --adapters folder or changes in it, and unload what "
                 "goes, while serving")
      ->group("Server");
  command
      ->add_option("--merge", flags->service.service.merge,
                   "serve this one adapter merged into the base, as fast as the base, alone")
      ->group("Server");
  command
      ->add_option("--state", flags->service.service.state_folder,
                   "folder in which uploads, loads and unloads outlive the process")
      ->group("Server");
  command
      ->add_option("--max-upload-bytes", flags->service.service.upload_limit_bytes,
                   "largest upload of an adapter; K, M or G may follow (default 1G)")
      ->transform(CLI::AsSizeValue(false))
      ->group("Server");
  command->callback([flags, exit_code] { *exit_code = Serve(flags.get()); });
}

}  // namespace lorica::cli
