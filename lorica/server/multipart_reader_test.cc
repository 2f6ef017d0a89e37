#include "lorica/server/multipart_reader.h"

#include <gtest/gtest.h>

namespace lorica::server {
namespace {

Result<std::vector<ArchiveFile>> Read(const std::string& body, const std::string& boundary = "XX") {
  return ReadMultipart(std::as_bytes(std::span(body)), boundary);
}

std::string Part(const std::string& disposition, const std::string& content) {
  return "--XX\r\nContent-Disposition: form-data; " + disposition +
         "\r\nContent-Type: application/octet-stream\r\n\r\n" + content + "\r\n";
}

TEST(Multipart, FindsTheBoundary) {
  EXPECT_EQ(MultipartBoundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(MultipartBoundary("Multipart/Form-Data; charset=x; Boundary=\"a b\""), "a b");
  EXPECT_EQ(MultipartBoundary("multipart/form-data"), "");
  EXPECT_EQ(MultipartBoundary("application/x-tar; boundary=abc"), "");
  EXPECT_EQ(MultipartBoundary("multipart/form-data; boundary=" + std::string(71, 'a')), "");
}

TEST(Multipart, ReadsFilesByTheirNames) {
  // Content that looks like a boundary, but for its line's end.
  const std::string content = "a\r\n--X\r\n--Xx\n--XX\0b";
  const auto files =
      Read("preamble\r\n" + Part("name=\"config\"; filename=\"adapter_config.json\"", "{}") +
           Part("filename=\"w.safetensors\"; name=f", content) + Part("name=\"plain.json\"", "") +
           "--XX--\r\n");
  ASSERT_TRUE(files.ok()) << files.status().message();
  ASSERT_EQ(files->size(), 3u);
  EXPECT_EQ((*files)[0].name, "adapter_config.json");
  EXPECT_EQ((*files)[0].bytes.size(), 2u);
  EXPECT_EQ((*files)[1].bytes.size(), content.size());
  EXPECT_EQ((*files)[2].name, "plain.json");
  EXPECT_TRUE((*files)[2].bytes.empty());
}

TEST(Multipart, RefusesPathsAndNamelessParts) {
  for (const char* name : {"../x.json", "/etc/passwd", "a/b.json", "..", ".", "a\\b", "a\nb"}) {
    EXPECT_FALSE(Read(Part("filename=\"" + std::string(name) + "\"", "{}") + "--XX--").ok())
        << name;
  }
  EXPECT_FALSE(Read(Part("charset=x", "{}") + "--XX--").ok());
  EXPECT_FALSE(Read("--XX\r\n\r\ncontent\r\n--XX--").ok());
  EXPECT_FALSE(Read(Part("name=a", "1") + Part("name=a", "2") + "--XX--").ok());
  EXPECT_FALSE(Read(Part("name=a", "1") + "--XX--", "").ok());
}

TEST(Multipart, EveryCutIsRefused) {
  const std::string body = Part("name=\"a.json\"", "{}") + Part("name=\"b.json\"", "{}") + "--XX--";
  ASSERT_TRUE(Read(body).ok());
  for (size_t size = 0; size < body.size(); ++size) {
    EXPECT_FALSE(Read(body.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace lorica::server
