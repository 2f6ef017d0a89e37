#include "lorica/formats/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cctype>
#include <optional>

namespace lorica::formats {
namespace {

constexpr size_t kMaxRegexBytes = 16384;
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

// White_Space of Unicode, which is what Oniguruma's \s means, and its complement. PCRE2's own \s
// has U+180E too.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// Rewrites Oniguruma's syntax as PCRE2's, token by token.
class Translator {
 public:
  explicit Translator(std::string_view regex) : regex_(regex) {}

  Result<std::string> Run() {
    while (at_ < regex_.size()) {
      const char c = regex_[at_];
      if (c == '\\') {
        LORICA_RETURN_IF_ERROR(Escape());
        continue;
      }
      if (in_class_) {
        LORICA_RETURN_IF_ERROR(InClass(c));
      } else if (c == '[') {
        in_class_ = true;
        if (regex_.substr(at_ + 1, 1) == "^") out_ += regex_[at_++];
        if (regex_.substr(at_ + 1, 1) == "]") return Refuse("\"]\" at the start of a class");
      } else if (c == '(' && regex_.substr(at_ + 1, 1) == "?") {
        LORICA_RETURN_IF_ERROR(Group());
      } else if (c == '(' && regex_.substr(at_ + 1, 1) == "*") {
        return Refuse("\"(*\"");
      }
      out_ += regex_[at_++];
    }
    return std::move(out_);
  }

 private:
  Status Refuse(const std::string& what) const { return Unimplemented(what + " is not served"); }

  Status InClass(char c) {
    if (c == '[') return Refuse("a class inside a class");
    if (c == '&' && regex_.substr(at_ + 1, 1) == "&") return Refuse("\"&&\" in a class");
    if (c == ']') in_class_ = false;
    return OkStatus();
  }

  // Groups that mean the same in both: (?:  (?i:  (?i)  (?-i:  (?=  (?!  (?>  (?<=  (?<!
  Status Group() {
    std::string_view rest = regex_.substr(at_ + 2);
    for (const std::string_view start :
         {":", "i:", "i)", "-i:", "-i)", "=", "!", ">", "<=", "<!"}) {
      if (rest.starts_with(start)) return OkStatus();
    }
    return Refuse("the group \"(?" + std::string(rest.substr(0, 1)) + "\"");
  }

  Status Escape() {
    if (at_ + 1 == regex_.size()) return InvalidArgument("it ends in a backslash");
    const char letter = regex_[at_ + 1];
    at_ += 2;
    switch (letter) {
      case 's':
        Class(kSpace);
        return OkStatus();
      case 'S':
        Class(kNotSpace);
        return OkStatus();
      case 'v':  // a single character there, a class here
        out_ += "\\x{b}";
        return OkStatus();
      case 'u':
        return Hex(4);
      case 'd':
      case 'D':
      case 'p':
      case 'P':
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'x':
      case 'A':
      case 'z':
        break;
      default:
        if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
          return Refuse(std::string("the escape \"\\") + letter + "\"");
        }
    }
    out_ += '\\';
    out_ += letter;
    return OkStatus();
  }

  Status Hex(size_t digits) {
    const std::string_view hex = regex_.substr(at_, digits);
    if (hex.size() < digits) return InvalidArgument("it ends inside \"\\u\"");
    for (const char c : hex) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) {
        return InvalidArgument("\"\\u\" needs four hexadecimal digits");
      }
    }
    out_ += "\\x{";
    out_ += hex;
    out_ += '}';
    at_ += digits;
    return OkStatus();
  }

  void Class(std::string_view ranges) {
    if (!in_class_) out_ += '[';
    out_ += ranges;
    if (!in_class_) out_ += ']';
  }

  std::string_view regex_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

struct CompileContextDeleter {
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

std::string Quoted(std::string_view regex) {
  return "the pattern \"" + std::string(regex.substr(0, 120)) +
         (regex.size() > 120 ? "...\"" : "\"");
}

}  // namespace

struct SplitPattern::Code {
  pcre2_code* code = nullptr;
  std::unique_ptr<pcre2_match_context, MatchContextDeleter> context;
  ~Code() { pcre2_code_free(code); }
};

SplitPattern SplitPattern::Literal(std::string_view text) {
  SplitPattern pattern;
  pattern.source_ = text;
  return pattern;
}

Result<SplitPattern> SplitPattern::Compile(std::string_view regex) {
  if (regex.size() > kMaxRegexBytes) {
    return OutOfRange(Quoted(regex) + " has " + std::to_string(regex.size()) + " bytes, at most " +
                      std::to_string(kMaxRegexBytes) + " are served");
  }
  auto translated = Translator(regex).Run();
  if (!translated.ok()) return translated.status().WithContext(Quoted(regex));

  std::unique_ptr<pcre2_compile_context, CompileContextDeleter> compile_context(
      pcre2_compile_context_create(nullptr));
  auto code = std::make_shared<Code>();
  code->context.reset(pcre2_match_context_create(nullptr));
  if (compile_context == nullptr || code->context == nullptr) {
    return ResourceExhausted("no memory to compile " + Quoted(regex));
  }
  pcre2_set_newline(compile_context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(compile_context.get(), 100);
  pcre2_set_match_limit(code->context.get(), kMatchLimit);
  pcre2_set_heap_limit(code->context.get(), kHeapLimitKib);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &offset, compile_context.get());
  if (code->code == nullptr) {
    return InvalidArgument(Quoted(regex) + " is no regular expression: " + ErrorText(error));
  }
  // Without JIT (a processor or a sandbox that lacks it) the interpreter gives the same answers.
  static_cast<void>(pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE));
  SplitPattern pattern;
  pattern.source_ = regex;
  pattern.code_ = std::move(code);
  return pattern;
}

Status SplitPattern::Cut(std::string_view text, std::vector<SplitSpan>* spans) const {
  spans->clear();
  if (code_ != nullptr) return CutRegex(text, spans);
  size_t previous = 0;
  for (size_t at = 0; !source_.empty();) {
    at = text.find(source_, at);
    if (at == std::string_view::npos) break;
    if (previous != at) spans->push_back({previous, at, false});
    at += source_.size();
    spans->push_back({at - source_.size(), at, true});
    previous = at;
  }
  if (previous != text.size()) spans->push_back({previous, text.size(), false});
  return OkStatus();
}

Status SplitPattern::CutRegex(std::string_view text, std::vector<SplitSpan>* spans) const {
  const std::unique_ptr<pcre2_match_data, MatchDataDeleter> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr));
  if (data == nullptr) return ResourceExhausted("no memory to match " + Quoted(source_));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
  const auto match = [&](size_t start, uint32_t options) {
    // The caller has checked the text; PCRE2 would check the whole of it at every call.
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                       PCRE2_NO_UTF_CHECK | options, data.get(), code_->context.get());
  };
  size_t previous = 0;
  std::optional<size_t> last_end;
  for (size_t start = 0; start <= text.size();) {
    int found = match(start, 0);
    // A deep pattern may pass the small stack of the compiled code; the interpreter has a heap.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(start, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return OutOfRange(Quoted(source_) + " cannot be matched in this text: " + ErrorText(found));
    }
    const size_t begin = bounds[0];
    const size_t end = bounds[1];
    if (begin == end && last_end == end) {
      // An empty match right after a match does not count; go on one character later.
      ++start;
      while (start < text.size() && (text[start] & 0xC0) == 0x80) ++start;
      continue;
    }
    start = end;
    last_end = end;
    if (previous != begin) spans->push_back({previous, begin, false});
    spans->push_back({begin, end, true});
    previous = end;
  }
  if (previous != text.size()) spans->push_back({previous, text.size(), false});
  return OkStatus();
}

}  // namespace lorica::formats
