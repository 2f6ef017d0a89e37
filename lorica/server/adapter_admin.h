// AdapterAdmin: adapters that come and go while the server runs, without a transport: uploads,
// loads from --adapters, unloads, pins, and what is known of each. A change is durable, where there
// is a --state folder, before it is published, and published before it is answered. Owned by
// Service; any thread may call it. Changes are made one at a time and read files, so they belong on
// a thread that may wait; List and Get do not wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/file_system.h"
#include "lorica/engine/engine.h"
#include "lorica/server/adapter_paths.h"
#include "lorica/server/adapter_state.h"
#include "lorica/server/openai_api.h"

namespace lorica::server {

class AdapterAdmin {
 public:
  struct Options {
    engine::Engine* engine = nullptr;
    const model::Model* model = nullptr;
    OpenAiApi* api = nullptr;
    std::string model_name;       // what base_model_name_or_path is compared with
    std::string adapters_folder;  // empty: none
    bool watch_folder = false;    // ScanFolder will be called
    std::string state_folder;     // empty: nothing outlives the process
    lora::LoadOptions load;
    int64_t upload_limit_bytes = int64_t{1} << 30;
  };
  // `files` is what durable state is written through; a test may lose or refuse some of it.
  static Result<std::unique_ptr<AdapterAdmin>> Open(
      const Options& options, std::unique_ptr<FileSystem> files = MakePosixFileSystem());
  ~AdapterAdmin();

  // What the state folder, `modules` and the adapters folder hold, in this order; of a name given
  // twice the first stays. A refused adapter is logged in one line and answers its requests.
  void LoadAtStart(const std::vector<NamedPath>& modules);

  // Looks once through the adapters folder: an entry that is new or has changed, and whose files
  // have been the same for a second, is loaded. One that does not load is logged and tried again
  // when it changes; what is served stays. One that has been gone for a second is unloaded, if its
  // name was this entry's: not what --lora-modules, an upload or a call gave the name. Requests in
  // flight end on it, and it is served again when it comes back. A folder that cannot be listed
  // unloads nothing.
  void ScanFolder();

  struct Upload {
    std::string name;
    std::string body_path;  // of NewBodyPath; the body as it came
    std::string content_type;
    std::string if_match;  // a digest, "*", or empty
  };
  int64_t upload_limit_bytes() const { return options_.upload_limit_bytes; }
  // Where the transport writes an upload's body, and what it does with it afterwards.
  std::string NewBodyPath();
  void RemoveBody(const std::string& path);

  // Each answers with JSON, or text where vLLM does, or the error.
  ApiResult<std::string> Put(const Upload& upload);
  ApiResult<std::string> Delete(const std::string& name, const std::string& if_match);
  ApiResult<std::string> Pin(const std::string& name);
  ApiResult<std::string> Unpin(const std::string& name);
  ApiResult<std::string> LoadByPath(std::string_view body);    // {lora_name, lora_path}
  ApiResult<std::string> UnloadByName(std::string_view body);  // {lora_name}
  std::string List() const;
  ApiResult<std::string> Get(const std::string& name) const;

 private:
  struct Loaded {
    std::shared_ptr<const lora::Adapter> adapter;
    lora::AdapterSource source;
    GenerationDefaults defaults;
    std::vector<std::string> warnings;
  };
  // Uploaded files that no entry names and that a version in flight may still be fetched from.
  struct Leftover {
    std::string digest;
    std::weak_ptr<lora::TieredAdapter> holder;
  };

  AdapterAdmin(const Options& options, std::unique_ptr<FileSystem> files)
      : options_(options), files_(std::move(files)) {}

  // Empty when it cannot be made.
  const std::string& OwnFolder();
  Result<Loaded> Load(const std::string& path) const;
  Status Publish(const std::string& name, Loaded loaded);
  void LoadFromState();
  void LoadGiven(const NamedPath& given);
  // Of ScanFolder: one entry that is there, and those that are not.
  void ScanEntry(const NamedPath& entry);
  void UnloadGone(const std::vector<NamedPath>& listed);
  void Refuse(const std::string& name, const Status& reason);
  Result<std::vector<ArchiveFile>> ReadUpload(const Upload& upload,
                                              std::span<const std::byte> bytes) const;
  Status CheckName(const std::string& name) const;
  // The current version's adapter; null when the name is not served.
  lora::AdapterHold Current(const std::string& name) const;
  ApiResult<std::string> CheckMatch(const std::string& name, const std::string& if_match) const;
  // A version of `name` has been replaced or removed; pins follow the name.
  void MovePin(const std::string& name);
  // Remembers what pinned_ says of the name, and describes it.
  ApiResult<std::string> AnswerPin(const std::string& name, const lora::AdapterHold& adapter);
  void SweepLeftovers();
  Status Remove(const std::string& name);
  void WriteAdapter(const std::string& name, const lora::AdapterHold& adapter,
                    JsonWriter* json) const;

  const Options options_;
  const std::unique_ptr<FileSystem> files_;
  std::once_flag own_folder_once_;
  // Without --state, from the first upload on: removed at the end. Fixed by OwnFolder.
  std::string own_folder_;
  std::string body_folder_ = "/nowhere";  // fixed by Open or OwnFolder
  std::atomic<uint64_t> next_body_{1};

  std::mutex changing_;  // held over a change; guards all below
  std::unique_ptr<AdapterState> state_;
  std::map<std::string, std::string> given_;  // names of --lora-modules and --adapters: their path
  std::map<std::string, lora::AdapterHold> pinned_;
  struct Seen {
    lora::FileIdentity identity;
    std::chrono::steady_clock::time_point since;
    bool tried = false;
    bool gone = false;
  };
  std::map<std::string, Seen> seen_;  // entries of a watched adapters folder, by name
  std::set<std::string> modules_;     // names of --lora-modules: the folder's entries leave them
  std::vector<Leftover> leftovers_;
};

}  // namespace lorica::server
