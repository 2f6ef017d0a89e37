// Reader of Hugging Face's tokenizer.json, with the files beside it. Pure functions, safe on any
// thread; LoadTokenizerFolder (tokenizer.h) is the same from a folder.
#pragma once

#include <memory>
#include <string_view>

#include "lorica/base/status.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/formats/tokenizer_config.h"

namespace lorica::formats {

// Messages start with the file's name. Sections "truncation" and "padding" are passed over: a
// request is never cut or padded.
Result<std::shared_ptr<const Tokenizer>> ParseTokenizerJson(std::string_view tokenizer_json,
                                                            const TokenizerConfig& config);

}  // namespace lorica::formats
