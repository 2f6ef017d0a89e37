// Any bytes are a GGUF file or a refusal, and every view lies inside the bytes.
#include "lorica/formats/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lorica;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const Result<formats::GgufFile> file = formats::GgufFile::Parse(bytes, "fuzz");
  if (!file.ok()) {
    LORICA_CHECK(!file.status().message().empty());
    return 0;
  }
  for (const formats::NamedTensor& tensor : file->tensors()) {
    LORICA_CHECK(tensor.view.data >= bytes.data() && tensor.view.bytes() >= 0);
    LORICA_CHECK(tensor.view.bytes() <= bytes.data() + size - tensor.view.data);
    LORICA_CHECK(file->FindTensor(tensor.name) == &tensor.view);
  }
  for (const auto& [key, value] : file->metadata()) {
    const Result<std::optional<int64_t>> integer = file->FindInt(key);
    const auto strings = file->FindStringArray(key);
    const auto integers = file->FindIntArray(key);
    LORICA_CHECK(static_cast<int>(integer.ok()) + strings.ok() + integers.ok() <= 1);
    LORICA_CHECK(!formats::GgufTypeName(value).empty());
  }
  return 0;
}
