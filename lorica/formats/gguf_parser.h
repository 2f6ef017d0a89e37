// GgufParser: fills one GgufFile from its bytes; used by GgufFile::Parse alone, on one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/formats/gguf.h"
#include "lorica/formats/gguf_cursor.h"

namespace lorica::formats {

// `text` in quotes for a message, without control bytes and cut after 64.
std::string QuotedForMessage(std::string_view text);

class GgufParser {
 public:
  // Keeps references to all three.
  GgufParser(std::span<const std::byte> bytes, const GgufLimits& limits, GgufFile* file)
      : bytes_(bytes), limits_(limits), cursor_(bytes), file_(*file) {}

  Status Parse();

 private:
  Status ReadHeader();
  Status CheckCount(const std::string& what, uint64_t count, int64_t limit, uint64_t least) const;
  Status ReadKey();
  Result<GgufValue> ReadValue();
  Result<uint32_t> ReadType();
  template <typename T>
  Result<T> ReadScalar();
  template <typename T>
  Result<GgufValue> ReadArray(uint64_t count);
  Status ReadAlignment();
  Status RefuseSplitFile() const;
  Status ReadTensor();
  Status ReadTensorFacts(std::string name);
  // Gives every tensor its data.
  Status PlaceTensors();
  Status IndexTensors();

  std::span<const std::byte> bytes_;
  const GgufLimits& limits_;
  GgufCursor cursor_;
  GgufFile& file_;
  uint64_t keys_ = 0;
  uint64_t tensors_ = 0;
  uint32_t alignment_ = 0;
  std::vector<uint64_t> offsets_;
};

}  // namespace lorica::formats
