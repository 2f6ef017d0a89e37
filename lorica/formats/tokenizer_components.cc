#include "lorica/formats/tokenizer_components.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

namespace lorica::formats {
namespace {

namespace json = boost::json;

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }

// A component: an object with a "type" that picks the other fields.
struct Component {
  JsonObjectReader fields;
  std::string_view type;

  static Result<Component> Of(const json::value& value, const std::string& where) {
    LORICA_ASSIGN_OR_RETURN(JsonObjectReader fields, JsonObjectReader::Of(value, where));
    const json::value* type = fields.Find("type");
    if (type == nullptr || !type->is_string()) return fields.Wrong("type", "a string");
    return Component{std::move(fields), View(type->get_string())};
  }

  Status Unserved() const {
    return Unimplemented(fields.where() + ": the type \"" + std::string(type) + "\" is not served");
  }

  Status CheckFields(std::initializer_list<std::string_view> known) const {
    for (const auto& field : fields.object()) {
      const std::string_view key(field.key().data(), field.key().size());
      if (key != "type" && std::find(known.begin(), known.end(), key) == known.end()) {
        return Unimplemented(fields.where() + ": the field \"" + std::string(key) + "\" of \"" +
                             std::string(type) + "\" is not served");
      }
    }
    return OkStatus();
  }

  // The members of a Sequence, with a place name for each.
  Result<std::vector<std::pair<const json::value*, std::string>>> Members(
      std::string_view key) const {
    LORICA_RETURN_IF_ERROR(CheckFields({key}));
    const json::value* list = fields.Find(key);
    if (list == nullptr || !list->is_array()) return fields.Wrong(key, "an array");
    std::vector<std::pair<const json::value*, std::string>> members;
    for (const json::value& member : list->get_array()) {
      members.emplace_back(&member, fields.where() + "[" + std::to_string(members.size()) + "]");
    }
    return members;
  }
};

Result<Normalizer> ReadNormalizer(const json::value& value, const std::string& where) {
  LORICA_ASSIGN_OR_RETURN(const Component component, Component::Of(value, where));
  if (component.type == "NFC") {
    LORICA_RETURN_IF_ERROR(component.CheckFields({}));
    return Normalizer::kNfc;
  }
  if (component.type != "Sequence") return component.Unserved();
  LORICA_ASSIGN_OR_RETURN(const auto members, component.Members("normalizers"));
  Normalizer all = Normalizer::kNone;
  for (const auto& [member, place] : members) {
    LORICA_ASSIGN_OR_RETURN(all, ReadNormalizer(*member, place));  // NFC twice is NFC
  }
  return all;
}

struct StepList {
  std::vector<PreTokenizer::Step> steps;
  bool byte_level = false;  // seen, so nothing may follow
};

Result<SplitBehavior> ReadBehavior(const JsonObjectReader& fields) {
  LORICA_ASSIGN_OR_RETURN(const std::string behavior, fields.String("behavior"));
  constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [name, value] : kBehaviors) {
    if (behavior == name) return value;
  }
  return Unimplemented(fields.where() + ": the behavior \"" + behavior + "\" is not served");
}

Result<SplitPattern> ReadPattern(const JsonObjectReader& fields) {
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader pattern, fields.Object("pattern"));
  if (pattern.object().size() == 1 && pattern.Has("Regex")) {
    LORICA_ASSIGN_OR_RETURN(const std::string regex, pattern.String("Regex"));
    auto compiled = SplitPattern::Compile(regex);
    if (!compiled.ok()) return compiled.status().WithContext(fields.where());
    return compiled;
  }
  if (pattern.object().size() == 1 && pattern.Has("String")) {
    LORICA_ASSIGN_OR_RETURN(const std::string text, pattern.String("String"));
    return SplitPattern::Literal(text);
  }
  return fields.Wrong("pattern", "{\"String\": ...} or {\"Regex\": ...}");
}

Status AddByteLevel(const Component& component, StepList* list) {
  LORICA_RETURN_IF_ERROR(component.CheckFields({"add_prefix_space", "trim_offsets", "use_regex"}));
  LORICA_ASSIGN_OR_RETURN(const bool prefix_space, component.fields.Bool("add_prefix_space"));
  LORICA_ASSIGN_OR_RETURN(const auto use_regex, component.fields.OptionalBool("use_regex"));
  if (prefix_space) list->steps.emplace_back(PrefixSpaceStep{});
  if (use_regex.value_or(true)) list->steps.emplace_back(Gpt2Split());
  list->byte_level = true;
  return OkStatus();
}

Status AddSteps(const json::value& value, const std::string& where, StepList* list) {
  LORICA_ASSIGN_OR_RETURN(const Component component, Component::Of(value, where));
  if (component.type == "Sequence") {
    LORICA_ASSIGN_OR_RETURN(const auto members, component.Members("pretokenizers"));
    for (const auto& [member, place] : members) {
      LORICA_RETURN_IF_ERROR(AddSteps(*member, place, list));
    }
    return OkStatus();
  }
  if (list->byte_level) {
    return Unimplemented(where + ": \"" + std::string(component.type) +
                         "\" after \"ByteLevel\" is not served");
  }
  if (component.type == "ByteLevel") return AddByteLevel(component, list);
  if (component.type == "Digits") {
    LORICA_RETURN_IF_ERROR(component.CheckFields({"individual_digits"}));
    LORICA_ASSIGN_OR_RETURN(const bool individual, component.fields.Bool("individual_digits"));
    list->steps.emplace_back(DigitsStep{individual});
    return OkStatus();
  }
  if (component.type != "Split") return component.Unserved();
  LORICA_RETURN_IF_ERROR(component.CheckFields({"pattern", "behavior", "invert"}));
  LORICA_ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadBehavior(component.fields));
  LORICA_ASSIGN_OR_RETURN(const bool invert, component.fields.Bool("invert"));
  LORICA_ASSIGN_OR_RETURN(SplitPattern pattern, ReadPattern(component.fields));
  list->steps.emplace_back(SplitStep{std::move(pattern), behavior, invert});
  return OkStatus();
}

Status AddSpecialTokenIds(const JsonObjectReader& tokens, const std::string& name,
                          std::vector<int32_t>* ids) {
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader token, tokens.Object(name));
  const json::value* list = token.Find("ids");
  if (list == nullptr || !list->is_array()) return token.Wrong("ids", "an array of token ids");
  for (const json::value& id : list->get_array()) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= kMaxTokenIds) {
      return token.Wrong("ids", "an array of token ids");
    }
    ids->push_back(static_cast<int32_t>(id.get_int64()));
  }
  return OkStatus();
}

Result<Affixes> ReadTemplate(const Component& component) {
  LORICA_RETURN_IF_ERROR(component.CheckFields({"single", "pair", "special_tokens"}));
  const JsonObjectReader& fields = component.fields;
  const json::value* single = fields.Find("single");
  if (single == nullptr || !single->is_array()) return fields.Wrong("single", "an array");
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader tokens, fields.Object("special_tokens"));
  Affixes affixes;
  bool seen_text = false;
  const std::string where = fields.where() + ": \"single\"";
  for (const json::value& piece : single->get_array()) {
    LORICA_ASSIGN_OR_RETURN(const JsonObjectReader item, JsonObjectReader::Of(piece, where));
    if (item.object().size() == 1 && item.Has("SpecialToken")) {
      LORICA_ASSIGN_OR_RETURN(const JsonObjectReader token, item.Object("SpecialToken"));
      LORICA_ASSIGN_OR_RETURN(const std::string name, token.String("id"));
      auto* ids = seen_text ? &affixes.suffix : &affixes.prefix;
      LORICA_RETURN_IF_ERROR(AddSpecialTokenIds(tokens, name, ids));
      continue;
    }
    LORICA_ASSIGN_OR_RETURN(const JsonObjectReader sequence, item.Object("Sequence"));
    LORICA_ASSIGN_OR_RETURN(const std::string id, sequence.String("id"));
    if (id != "A" || seen_text) {
      return Unimplemented(where + ": expected the sequence \"A\" once, found \"" + id +
                           (seen_text ? "\" again" : "\""));
    }
    seen_text = true;
  }
  if (!seen_text) return Unimplemented(where + ": a template without the sequence \"A\"");
  return affixes;
}

Result<Affixes> ReadPostProcessor(const json::value& value, const std::string& where) {
  LORICA_ASSIGN_OR_RETURN(const Component component, Component::Of(value, where));
  if (component.type == "ByteLevel") {
    // It moves offsets, which are not served, and never ids.
    LORICA_RETURN_IF_ERROR(
        component.CheckFields({"add_prefix_space", "trim_offsets", "use_regex"}));
    return Affixes{};
  }
  if (component.type == "TemplateProcessing") return ReadTemplate(component);
  if (component.type != "Sequence") return component.Unserved();
  LORICA_ASSIGN_OR_RETURN(const auto members, component.Members("processors"));
  std::optional<Affixes> only;
  for (const auto& [member, place] : members) {
    LORICA_ASSIGN_OR_RETURN(Affixes affixes, ReadPostProcessor(*member, place));
    if (affixes.prefix.empty() && affixes.suffix.empty()) continue;
    if (only) return Unimplemented(place + ": a second template is not served");
    only = std::move(affixes);
  }
  return only.value_or(Affixes{});
}

Status CheckDecoder(const json::value& value, const std::string& where) {
  LORICA_ASSIGN_OR_RETURN(const Component component, Component::Of(value, where));
  if (component.type == "ByteLevel") {
    return component.CheckFields({"add_prefix_space", "trim_offsets", "use_regex"});
  }
  if (component.type != "Sequence") return component.Unserved();
  LORICA_ASSIGN_OR_RETURN(const auto members, component.Members("decoders"));
  if (members.size() != 1) {
    return Unimplemented(where + ": a \"Sequence\" of " + std::to_string(members.size()) +
                         " decoders is not served, only of one");
  }
  return CheckDecoder(*members[0].first, members[0].second);
}

Status ReadVocab(const JsonObjectReader& model, BpeSpec* spec) {
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader vocab, model.Object("vocab"));
  // Holes are legal and rare; one huge id must not make a huge table.
  const int64_t limit =
      std::min<int64_t>(kMaxTokenIds, static_cast<int64_t>(vocab.object().size()) + 65536);
  for (const auto& entry : vocab.object()) {
    const std::string_view token(entry.key().data(), entry.key().size());
    LORICA_ASSIGN_OR_RETURN(const int64_t id, vocab.Int(token, {.min = 0, .max = limit - 1}));
    const auto index = static_cast<size_t>(id);
    if (index >= spec->tokens.size()) spec->tokens.resize(index + 1);
    if (spec->tokens[index].data() != nullptr) {
      return InvalidArgument(vocab.where() + ": the id " + std::to_string(id) +
                             " belongs to two tokens");
    }
    spec->tokens[index] = token;
  }
  return OkStatus();
}

// "left right" or ["left", "right"].
std::optional<BpeMerge> ReadMerge(const json::value& value) {
  if (value.is_string()) {
    const std::string_view text = View(value.get_string());
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return std::nullopt;
    }
    return BpeMerge{text.substr(0, space), text.substr(space + 1)};
  }
  if (!value.is_array() || value.get_array().size() != 2) return std::nullopt;
  const json::array& pair = value.get_array();
  if (!pair[0].is_string() || !pair[1].is_string()) return std::nullopt;
  return BpeMerge{View(pair[0].get_string()), View(pair[1].get_string())};
}

Status ReadMerges(const JsonObjectReader& model, BpeSpec* spec) {
  const json::value* merges = model.Find("merges");
  if (merges == nullptr || !merges->is_array()) return model.Wrong("merges", "an array");
  spec->merges.reserve(merges->get_array().size());
  for (const json::value& value : merges->get_array()) {
    const auto merge = ReadMerge(value);
    if (!merge) {
      return InvalidArgument(model.where() + ": merge " + std::to_string(spec->merges.size()) +
                             ": expected \"left right\" or [\"left\", \"right\"], found " +
                             DescribeJson(value));
    }
    spec->merges.push_back(*merge);
  }
  return OkStatus();
}

Status CheckUnservedBpeFields(const JsonObjectReader& model) {
  if (model.Has("dropout")) {
    LORICA_ASSIGN_OR_RETURN(const double dropout, model.Double("dropout"));
    if (dropout != 0) return Unimplemented(model.where() + ": \"dropout\" is not served");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    LORICA_ASSIGN_OR_RETURN(const auto affix, model.OptionalString(key));
    if (affix && !affix->empty()) {
      return Unimplemented(model.where() + ": \"" + std::string(key) + "\" is not served");
    }
  }
  LORICA_ASSIGN_OR_RETURN(const auto byte_fallback, model.OptionalBool("byte_fallback"));
  if (byte_fallback.value_or(false)) {
    return Unimplemented(model.where() + ": \"byte_fallback\" is not served");
  }
  return OkStatus();
}

}  // namespace

Result<Normalizer> ReadNormalizer(const json::value* value) {
  if (value == nullptr || value->is_null()) return Normalizer::kNone;
  return ReadNormalizer(*value, "\"normalizer\"");
}

Result<PreTokenizer> ReadPreTokenizer(const json::value* value) {
  StepList list;
  if (value != nullptr && !value->is_null()) {
    LORICA_RETURN_IF_ERROR(AddSteps(*value, "\"pre_tokenizer\"", &list));
  }
  if (!list.byte_level) {
    return Unimplemented("\"pre_tokenizer\": one without \"ByteLevel\" is not served");
  }
  return PreTokenizer(std::move(list.steps));
}

Result<Affixes> ReadPostProcessor(const json::value* value) {
  if (value == nullptr || value->is_null()) return Affixes{};
  return ReadPostProcessor(*value, "\"post_processor\"");
}

Status CheckDecoder(const json::value* value) {
  if (value == nullptr || value->is_null()) return OkStatus();
  return CheckDecoder(*value, "\"decoder\"");
}

Result<BpeSpec> ReadBpeSpec(const JsonObjectReader& model) {
  const json::value* type = model.Find("type");
  if (type != nullptr && !type->is_string()) return model.Wrong("type", "a string");
  // Old files do not say the type.
  const Component component{model, type != nullptr ? View(type->get_string()) : "BPE"};
  if (component.type != "BPE") return component.Unserved();
  LORICA_RETURN_IF_ERROR(component.CheckFields({"dropout", "unk_token", "continuing_subword_prefix",
                                                "end_of_word_suffix", "fuse_unk", "byte_fallback",
                                                "ignore_merges", "vocab", "merges"}));
  LORICA_RETURN_IF_ERROR(CheckUnservedBpeFields(model));
  BpeSpec spec;
  LORICA_RETURN_IF_ERROR(ReadVocab(model, &spec));
  LORICA_RETURN_IF_ERROR(ReadMerges(model, &spec));
  const json::value* unk = model.Find("unk_token");
  if (unk != nullptr && !unk->is_string()) return model.Wrong("unk_token", "a string");
  if (unk != nullptr) spec.unk_token = View(unk->get_string());
  LORICA_ASSIGN_OR_RETURN(const auto fuse_unk, model.OptionalBool("fuse_unk"));
  LORICA_ASSIGN_OR_RETURN(const auto ignore_merges, model.OptionalBool("ignore_merges"));
  spec.fuse_unk = fuse_unk.value_or(false);
  spec.ignore_merges = ignore_merges.value_or(false);
  return spec;
}

}  // namespace lorica::formats
