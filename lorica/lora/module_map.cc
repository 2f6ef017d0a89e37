#include "lorica/lora/module_map.h"

#include <algorithm>
#include <array>

namespace lorica::lora {
namespace {

constexpr auto kPrefixes = std::to_array<std::string_view>({
    "model.",
    "",
    "model.language_model.",
    "language_model.model.",
    "language_model.",
});

struct Unserved {
  std::string_view part;
  std::string_view meaning;
};

constexpr auto kUnserved = std::to_array<Unserved>({
    {"unembed_tokens", "the output head, where LoRA is not served"},
    {"lm_head", "the output head, where LoRA is not served"},
    {"embed_tokens", "the embedding, where LoRA is not served"},
    {"qkv_proj", "a fused projection, which is not served"},
    {"gate_up_proj", "a fused projection, which is not served"},
    {"W_pack", "a fused projection, which is not served"},
    {"c_attn", "a fused projection, which is not served"},
    {"query_key_value", "a fused projection, which is not served"},
    {"expert", "a linear of an expert, which is not served"},
    {"visual", "a module of a vision tower, which is not served"},
    {"vision", "a module of a vision tower, which is not served"},
    {"score", "a classification head, which is not served"},
});

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "17" at the front of `text`, taken off it; at most nine digits, no leading zero.
std::optional<int32_t> TakeNumber(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsDigit);
  const auto digits = static_cast<size_t>(end - text.begin());
  if (digits == 0 || digits > 9 || (digits > 1 && text[0] == '0')) return std::nullopt;
  int32_t number = 0;
  for (const char c : text.substr(0, digits)) number = number * 10 + (c - '0');
  text.remove_prefix(digits);
  return number;
}

bool TakeText(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

std::optional<LinearName> ParseLinear(std::string_view path, std::string_view prefix) {
  if (!TakeText(path, prefix) || !TakeText(path, "layers.")) return std::nullopt;
  const std::optional<int32_t> layer = TakeNumber(path);
  if (!layer) return std::nullopt;
  for (int32_t i = 0; i < kProjections; ++i) {
    const auto projection = static_cast<Projection>(i);
    const bool attention = projection <= Projection::kO;
    if (path == (attention ? ".self_attn." : ".mlp.") + std::string(ProjectionName(projection))) {
      return LinearName{*layer, projection};
    }
  }
  return std::nullopt;
}

}  // namespace

ModuleMap MapModules(const std::vector<std::string>& paths) {
  ModuleMap best;
  std::ptrdiff_t best_count = -1;
  for (const std::string_view prefix : kPrefixes) {
    ModuleMap map;
    map.prefix = prefix;
    for (const std::string& path : paths) map.linears.push_back(ParseLinear(path, prefix));
    const auto count = std::count_if(map.linears.begin(), map.linears.end(),
                                     [](const auto& linear) { return linear.has_value(); });
    if (count <= best_count) continue;
    best_count = count;
    best = std::move(map);
  }
  return best;
}

std::string_view DescribeUnserved(std::string_view path) {
  for (const std::string_view prefix : kPrefixes) {
    if (ParseLinear(path, prefix)) return "a linear under another prefix than the others";
  }
  for (const Unserved& unserved : kUnserved) {
    if (path.find(unserved.part) != std::string_view::npos) return unserved.meaning;
  }
  return "a module that is not served";
}

std::string ModuleKind(std::string_view path) {
  std::string kind;
  for (const char c : path) {
    if (!IsDigit(c)) {
      kind += c;
    } else if (kind.empty() || kind.back() != '#') {
      kind += '#';
    }
  }
  return kind;
}

}  // namespace lorica::lora
