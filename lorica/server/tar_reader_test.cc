#include "lorica/server/tar_reader.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <string>

namespace lorica::server {
namespace {

struct Entry {
  std::string path;
  char type = '0';
  std::string content;
};

std::string Tar(const std::vector<Entry>& entries, bool end_mark = true) {
  std::string tar;
  for (const Entry& entry : entries) {
    char header[512] = {};
    std::snprintf(header, 100, "%s", entry.path.c_str());
    std::snprintf(header + 100, 8, "0000644");
    std::snprintf(header + 124, 12, "%011zo", entry.content.size());
    std::snprintf(header + 136, 12, "%011o", 0);
    header[156] = entry.type;
    std::memcpy(header + 257, "ustar\00000", 8);
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(header + 148, 8, "%06o", sum);
    tar.append(header, 512);
    tar += entry.content;
    tar.append((512 - entry.content.size() % 512) % 512, '\0');
  }
  if (end_mark) tar.append(1024, '\0');
  return tar;
}

Result<std::vector<ArchiveFile>> Read(const std::string& tar) {
  return ReadTar(std::as_bytes(std::span(tar)));
}

std::string Text(const ArchiveFile& file) {
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

TEST(Tar, ReadsAFolderOrARoot) {
  for (const std::string& prefix :
       {std::string(), std::string("./"), std::string("pirate/"), std::string("./pirate/")}) {
    const std::string tar =
        Tar({{prefix, '5', ""},
             {prefix + "adapter_config.json", '0', "{}"},
             {prefix + "adapter_model.safetensors", '\0', std::string(513, 'x')}});
    EXPECT_TRUE(LooksLikeTar(std::as_bytes(std::span(tar))));
    const auto files = Read(tar);
    ASSERT_TRUE(files.ok()) << files.status().message();
    ASSERT_EQ(files->size(), 2u);
    EXPECT_EQ((*files)[0].name, "adapter_config.json");
    EXPECT_EQ(Text((*files)[0]), "{}");
    EXPECT_EQ(Text((*files)[1]), std::string(513, 'x'));
  }
}

TEST(Tar, RefusesWhatCouldLeaveTheFolder) {
  const std::vector<std::vector<Entry>> bad = {
      {{"../adapter_config.json", '0', "{}"}},
      {{"a/../../b.json", '0', "{}"}},
      {{"/etc/passwd", '0', "x"}},
      {{"a/b/c.json", '0', "{}"}},
      {{"a\\b.json", '0', "{}"}},
      {{"link.json", '2', ""}},
      {{"link.json", '1', ""}},
      {{"null", '3', ""}},
      {{"block", '4', ""}},
      {{"pipe", '6', ""}},
      {{"long", 'L', "../../x"}},
      {{"sparse", 'S', ""}},
      {{"a/b.json", '0', "{}"}, {"c/d.json", '0', "{}"}},
      {{"b.json", '0', "{}"}, {"b.json", '0', "{}"}},
      {{"pax", 'x', "20 path=../../evil\n"}, {"b.json", '0', "{}"}},
      {{"a/b/", '5', ""}},
  };
  for (const auto& entries : bad) {
    const auto files = Read(Tar(entries));
    EXPECT_FALSE(files.ok()) << entries.front().path;
  }
  EXPECT_TRUE(Read(Tar({{"pax", 'x', "20 mtime=1234.5678\n"}, {"b.json", '0', "{}"}})).ok());
}

TEST(Tar, RefusesWhatIsCutOffOrDamaged) {
  const std::string tar = Tar({{"adapter_config.json", '0', std::string(700, '{')}});
  for (const size_t size : {size_t{0}, size_t{100}, size_t{512}, size_t{1000}, size_t{1536}}) {
    EXPECT_EQ(Read(tar.substr(0, size)).status().code(), StatusCode::kDataLoss) << size;
  }
  std::string damaged = tar;
  damaged[5] ^= 1;
  EXPECT_EQ(Read(damaged).status().code(), StatusCode::kInvalidArgument);
  std::vector<Entry> many;
  for (int i = 0; i < 65; ++i) many.push_back({"f" + std::to_string(i), '0', ""});
  EXPECT_EQ(Read(Tar(many)).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace lorica::server
