// Any bytes are a safetensors file or a refusal, and every view lies inside the bytes.
#include "lorica/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lorica;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const Result<formats::SafetensorsFile> file = formats::SafetensorsFile::Parse(bytes, "fuzz");
  if (!file.ok()) {
    LORICA_CHECK(!file.status().message().empty());
    return 0;
  }
  int64_t total = 0;
  for (const formats::NamedTensor& tensor : file->tensors()) {
    LORICA_CHECK(tensor.view.data >= bytes.data() && tensor.view.bytes() >= 0);
    LORICA_CHECK(tensor.view.bytes() <= bytes.data() + size - tensor.view.data);
    LORICA_CHECK(file->Find(tensor.name) == &tensor.view);
    total += tensor.view.bytes();
  }
  LORICA_CHECK(total <= static_cast<int64_t>(size));
  return 0;
}
