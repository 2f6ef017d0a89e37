#include "lorica/formats/peft_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

namespace lorica::formats {
namespace {

// A real key takes some hundred steps on a path of 40 bytes.
constexpr uint32_t kMatchSteps = 5000;
constexpr uint32_t kMatchHeapKib = 1024;

bool IsPlainByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

Status Refuse(std::string_view key, std::string_view what) {
  return Unimplemented("pattern key " + QuoteForMessage(key) + ": " + std::string(what));
}

// Rewrites a Python expression as the PCRE2 one that means the same, or refuses it.
class Translator {
 public:
  explicit Translator(std::string_view key) : key_(key) {}

  Result<std::string> Run() {
    while (at_ < key_.size()) {
      const char c = key_[at_];
      Status status;
      if (c == '\\') {
        status = Escape();
      } else if (c == '(') {
        status = Group();
      } else if (c == '[') {
        status = Class();
      } else if (c == '{') {
        Braces();
      } else {
        Copy(1);
      }
      if (!status.ok()) return status;
    }
    return std::move(out_);
  }

 private:
  std::string_view Rest(size_t skip) const {
    return key_.substr(std::min(at_ + skip, key_.size()));
  }

  void Copy(size_t n) {
    out_ += key_.substr(at_, n);
    at_ += n;
  }

  Status Escape() {
    const std::string_view rest = Rest(1);
    if (rest.empty()) return Refuse(key_, "expected an escaped character after the last backslash");
    const char c = rest[0];
    if (c >= '0' && c <= '9') {
      return Refuse(key_, "back-references and octal escapes are not read");
    }
    if (c == 'Z') {  // Python's end of text; PCRE2's \Z also stops before a last newline
      out_ += "\\z";
      at_ += 2;
      return OkStatus();
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter && std::string_view("dDwWsSbBA").find(c) == std::string_view::npos) {
      return Refuse(key_, std::string("the escape \\") + c + " is not read");
    }
    Copy(2);
    return OkStatus();
  }

  Status Group() {
    if (Rest(1).starts_with('*')) return Refuse(key_, "expected nothing to repeat after '('");
    if (!Rest(1).starts_with('?')) {
      Copy(1);
      return OkStatus();
    }
    const std::string_view kind = Rest(2);
    if (kind.starts_with("<=") || kind.starts_with("<!")) {
      return Refuse(key_, "look-behind is not read");
    }
    if (kind.starts_with("P=") || kind.starts_with("(")) {
      return Refuse(key_, "back-references are not read");
    }
    for (const std::string_view known : {":", "=", "!", "P<"}) {
      if (kind.starts_with(known)) {
        Copy(2 + known.size());
        return OkStatus();
      }
    }
    return Refuse(key_, "flags and special groups (?…) are not read");
  }

  Status Class() {
    Copy(1);
    if (Rest(0).starts_with('^')) Copy(1);
    if (Rest(0).starts_with(']')) Copy(1);
    while (at_ < key_.size() && key_[at_] != ']') {
      const std::string_view rest = Rest(0);
      if (rest.starts_with("[:") || rest.starts_with("[.") || rest.starts_with("[=")) {
        return Refuse(key_, "POSIX classes are not read");
      }
      if (key_[at_] == '\\') {
        if (rest.size() > 1 && std::string_view("BAZ").find(rest[1]) != std::string_view::npos) {
          return Refuse(key_, "an anchor inside [] is not read");
        }
        LORICA_RETURN_IF_ERROR(Escape());
      } else {
        Copy(1);
      }
    }
    if (at_ == key_.size()) {
      return InvalidArgument("pattern key " + QuoteForMessage(key_) + ": '[' without its ']'");
    }
    Copy(1);
    return OkStatus();
  }

  // Python reads {,n} as {0,n}; to PCRE2 10.42 it is literal text.
  void Braces() {
    if (Rest(1).starts_with(',')) {
      size_t end = at_ + 2;
      while (end < key_.size() && key_[end] >= '0' && key_[end] <= '9') ++end;
      if (end < key_.size() && key_[end] == '}') out_ += "{0", ++at_;
    }
    if (at_ < key_.size()) Copy(1);
  }

  std::string_view key_;
  size_t at_ = 0;
  std::string out_;
};

bool IsPlain(std::string_view key) {
  if (key.starts_with('^')) key.remove_prefix(1);
  return std::all_of(key.begin(), key.end(), IsPlainByte);
}

bool PlainMatches(std::string_view key, std::string_view path) {
  const bool pinned = key.starts_with('^');
  if (pinned) key.remove_prefix(1);
  if (key.size() > path.size()) return false;
  const std::string_view tail = path.substr(path.size() - key.size());
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] != '.' && key[i] != tail[i]) return false;
  }
  if (tail.size() == path.size()) return true;
  return !pinned && path[path.size() - tail.size() - 1] == '.';
}

}  // namespace

struct PeftPattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

std::string QuoteForMessage(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, 80)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += text.size() > 80 ? "\"…" : "\"";
  return out;
}

Result<PeftPattern> PeftPattern::Compile(std::string_view key) {
  PeftPattern pattern;
  pattern.key_ = std::string(key);
  if (key.size() > kMaxPatternBytes) {
    return OutOfRange("pattern key " + QuoteForMessage(key) + ": expected at most " +
                      std::to_string(kMaxPatternBytes) + " bytes, found " +
                      std::to_string(key.size()));
  }
  if (IsPlain(key)) return pattern;
  LORICA_ASSIGN_OR_RETURN(const std::string translated, Translator(key).Run());
  const std::string whole = "(.*\\.)?(" + translated + ")$";
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(),
                    PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->code == nullptr) {
    std::array<PCRE2_UCHAR, 200> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return InvalidArgument("pattern key " + QuoteForMessage(key) +
                           ": expected a regular expression, found an error: " +
                           reinterpret_cast<const char*>(text.data()));
  }
  code->limits = pcre2_match_context_create(nullptr);
  if (code->limits == nullptr) return ResourceExhausted("no memory for a pattern");
  pcre2_set_match_limit(code->limits, kMatchSteps);
  pcre2_set_depth_limit(code->limits, kMatchSteps);
  pcre2_set_heap_limit(code->limits, kMatchHeapKib);
  pattern.code_ = std::move(code);
  return pattern;
}

Result<bool> PeftPattern::Matches(std::string_view module_path) const {
  if (code_ == nullptr) return PlainMatches(key_, module_path);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  if (data == nullptr) return ResourceExhausted("no memory to match a pattern");
  const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(module_path.data()),
                                module_path.size(), 0, 0, data, code_->limits);
  pcre2_match_data_free(data);
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  return OutOfRange("pattern key " + QuoteForMessage(key_) + ": matching " +
                    QuoteForMessage(module_path) + " takes more than " +
                    std::to_string(kMatchSteps) + " steps");
}

}  // namespace lorica::formats
