#include "lorica/server/adapter_state.h"

#include <gtest/gtest.h>

#include <random>

#include "lorica/formats/sha256.h"
#include "lorica/formats/test_files.h"
#include "lorica/server/crashing_file_system.h"

namespace lorica::server {
namespace {

constexpr const char* kRoot = "/state";

// An upload whose one file says what it is.
struct Change {
  std::string name;
  std::string content;  // empty: the name is deleted
  std::string digest() const { return formats::Sha256Hex(content); }
};

Status Apply(AdapterState* state, const Change& change) {
  if (change.content.empty()) return state->Forget(change.name, AdapterState::AtStart::kUnloaded);
  const std::string staging = state->NewStaging();
  LORICA_RETURN_IF_ERROR(
      state->Stage(staging, {{"adapter_config.json", std::as_bytes(std::span(change.content))}}));
  return state->Commit({change.name, change.digest(), "", false}, staging);
}

// Every entry's files are there, whole, and are what their digest says.
bool IsConsistent(FileSystem* files, const AdapterState& state) {
  for (const auto& [name, entry] : state.manifest().entries) {
    const auto text = files->Read(state.FolderOf(entry.digest) + "/adapter_config.json", 1 << 20);
    if (!text.ok() || formats::Sha256Hex(*text) != entry.digest) return false;
  }
  return true;
}

// Runs changes until the file system is gone, restarts, and says whether the registry is one that
// an honest program leaves: every acknowledged change, perhaps the one in flight, and no file of
// nobody.
bool SurvivesACrash(CrashingFileSystem* files, int64_t crash_at, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> damaged;
  Manifest before;
  Manifest after;
  {
    auto state = AdapterState::Open(files, kRoot, &damaged);
    if (!state.ok()) return false;
    files->CrashBefore(files->operations() + crash_at);
    for (int i = 0;; ++i) {
      before = (*state)->manifest();
      Change change{"adapter " + std::to_string(random() % 3), ""};
      if (random() % 4 != 0) change.content = "content " + std::to_string(random() % 5);
      after = before;
      if (change.content.empty()) {
        after.entries.erase(change.name);
        after.unloaded.insert(change.name);
      } else {
        after.entries[change.name] = {change.name, change.digest(), "", false};
        after.unloaded.erase(change.name);
      }
      if (!Apply(state->get(), change).ok()) break;
      for (int content = 0; content < 5; ++content) {
        const std::string digest = formats::Sha256Hex("content " + std::to_string(content));
        if (!(*state)->IsUsed(digest)) (*state)->RemoveFiles(digest);
      }
    }
  }
  files->Restart([&] { return random() % 2 == 0; });
  auto state = AdapterState::Open(files, kRoot, &damaged);
  if (!state.ok() || !damaged.empty()) return false;
  const Manifest& found = (*state)->manifest();
  if (!(found == before) && !(found == after)) return false;
  if (!IsConsistent(files, **state)) return false;
  const auto digests = files->List(std::string(kRoot) + "/adapters");
  for (const std::string& digest : *digests) {
    if (!(*state)->IsUsed(digest)) return false;
  }
  return files->List(std::string(kRoot) + "/staging")->empty();
}

TEST(AdapterState, ACrashAnywhereLeavesTheOldOrTheNew) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    for (int64_t crash_at = 0; crash_at < 60; ++crash_at) {
      CrashingFileSystem files;
      ASSERT_TRUE(SurvivesACrash(&files, crash_at, seed)) << seed << " " << crash_at;
    }
  }
}

// Each sync is needed: without it some crash loses something.
TEST(AdapterState, NoSyncCanBeLeftOut) {
  const auto survives = [](const std::function<void(CrashingFileSystem*)>& harm) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      for (int64_t crash_at = 0; crash_at < 60; ++crash_at) {
        CrashingFileSystem files;
        harm(&files);
        if (!SurvivesACrash(&files, crash_at, seed)) return false;
      }
    }
    return true;
  };
  EXPECT_FALSE(survives([](CrashingFileSystem* files) { files->SkipFileSync(); }));
  EXPECT_FALSE(survives(
      [](CrashingFileSystem* files) { files->SkipFolderSync(std::string(kRoot) + "/adapters"); }));
  EXPECT_FALSE(survives([](CrashingFileSystem* files) { files->SkipFolderSync(kRoot); }));
  EXPECT_FALSE(survives([](CrashingFileSystem* files) { files->SkipFolderSync("/"); }));
}

// A disk that fails once: the client is told, asks again, and what it is then promised is durable.
TEST(AdapterState, WhatIsAcknowledgedAfterAFailureIsDurable) {
  for (const Change& last : {Change{"a", "new"}, Change{"a", ""}}) {
    for (int64_t fails_at = 0; fails_at < 12; ++fails_at) {
      CrashingFileSystem files;
      std::vector<std::string> damaged;
      auto state = AdapterState::Open(&files, kRoot, &damaged);
      ASSERT_TRUE(state.ok());
      ASSERT_EQ(Apply(state->get(), {"a", "old"}), OkStatus());
      files.FailOnce(files.operations() + fails_at);
      if (!Apply(state->get(), last).ok()) {
        ASSERT_EQ(Apply(state->get(), last), OkStatus());
      }
      const Manifest acknowledged = (*state)->manifest();
      files.Restart([] { return false; });  // nothing but what was synced
      state = AdapterState::Open(&files, kRoot, &damaged);
      ASSERT_TRUE(state.ok());
      EXPECT_EQ((*state)->manifest(), acknowledged) << fails_at;
      EXPECT_TRUE(damaged.empty()) << fails_at;
      EXPECT_TRUE(IsConsistent(&files, **state)) << fails_at;
    }
  }
}

TEST(AdapterState, ADamagedManifestLosesThatEntryAlone) {
  Manifest manifest;
  for (const char* name : {"a", "b", "c"}) {
    manifest.entries[name] = {name, formats::Sha256Hex(name), "", name[0] == 'b'};
  }
  manifest.entries["p"] = {"p", formats::Sha256Hex("p"), "/srv/p", false};
  manifest.unloaded = {"gone", "\"quoted\"\n"};
  std::vector<std::string> damaged;
  const std::string text = WriteManifest(manifest);
  EXPECT_EQ(ReadManifest(text, &damaged), manifest);
  EXPECT_TRUE(damaged.empty());

  std::string changed = text;
  changed[changed.find(R"("name":"b")") + 25] ^= 1;
  Manifest without = manifest;
  without.entries.erase("b");
  EXPECT_EQ(ReadManifest(changed, &damaged), without);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0], "manifest line 3 (\"b\") is dropped: its checksum is wrong");

  // Any byte may be wrong; nothing else may go, and nothing may come.
  for (size_t i = 0; i < text.size(); ++i) {
    std::string one = text;
    one[i] = static_cast<char>(one[i] ^ 0x11);
    damaged.clear();
    const Manifest read = ReadManifest(one, &damaged);
    EXPECT_GE(read.entries.size() + read.unloaded.size() + 2, 6u) << i;
    for (const auto& [name, entry] : read.entries) EXPECT_EQ(entry, manifest.entries[name]) << i;
  }
}

TEST(AdapterState, ATamperedDigestNamesNoPath) {
  Manifest manifest;
  manifest.entries["a"] = {"a", "../../etc", "", false};
  std::vector<std::string> damaged;
  EXPECT_TRUE(ReadManifest(WriteManifest(manifest), &damaged).entries.empty());
  EXPECT_EQ(damaged.size(), 1u);
}

TEST(AdapterState, WorksOnARealDisk) {
  const formats::testing::TempDir folder;
  const auto files = MakePosixFileSystem();
  std::vector<std::string> damaged;
  {
    auto state = AdapterState::Open(files.get(), folder / "state", &damaged);
    ASSERT_TRUE(state.ok()) << state.status().message();
    EXPECT_EQ(Apply(state->get(), {"a", "one"}), OkStatus());
    EXPECT_EQ(Apply(state->get(), {"b", "two"}), OkStatus());
    EXPECT_EQ(Apply(state->get(), {"b", ""}), OkStatus());
    const std::string abandoned = (*state)->NewStaging();
    EXPECT_EQ((*state)->Stage(abandoned, {}), OkStatus());
  }
  auto state = AdapterState::Open(files.get(), folder / "state", &damaged);
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(damaged.empty());
  EXPECT_EQ((*state)->manifest().entries.size(), 1u);
  EXPECT_TRUE((*state)->manifest().unloaded.contains("b"));
  EXPECT_TRUE(IsConsistent(files.get(), **state));
  EXPECT_EQ(files->List(folder / "state/adapters")->size(), 1u);
  EXPECT_TRUE(files->List(folder / "state/staging")->empty());
  EXPECT_EQ(files->Remove((*state)->FolderOf(formats::Sha256Hex("one"))), OkStatus());
  state = AdapterState::Open(files.get(), folder / "state", &damaged);
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE((*state)->manifest().entries.empty());
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_NE(damaged[0].find("adapter a is dropped"), std::string::npos);
}

}  // namespace
}  // namespace lorica::server
