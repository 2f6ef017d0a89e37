#include "lorica/formats/adapter_keys.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace lorica::formats {
namespace {

using Segments = std::vector<std::string_view>;

constexpr std::string_view kImageLora =
    "a tensor of an image-model LoRA (kohya, diffusers, LyCORIS)";

Segments Split(std::string_view name) {
  Segments segments;
  while (true) {
    const size_t dot = name.find('.');
    segments.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return segments;
    name.remove_prefix(dot + 1);
  }
}

std::string Join(std::span<const std::string_view> segments) {
  std::string joined;
  for (const std::string_view segment : segments) {
    if (!joined.empty()) joined += '.';
    joined += segment;
  }
  return joined;
}

bool IsImageLora(const Segments& segments) {
  if (segments[0].starts_with("lora_unet") || segments[0].starts_with("lora_te")) return true;
  if (segments.back() == "alpha") return true;
  return std::any_of(segments.begin(), segments.end(), [](std::string_view segment) {
    return segment == "lora_up" || segment == "lora_down" || segment == "dora_scale" ||
           segment == "processor" || segment == "single_transformer_blocks" ||
           segment.starts_with("hada_") || segment.starts_with("lokr_");
  });
}

struct Marker {
  std::string_view segment;
  std::string_view meaning;
};

// Segments that name a variant wherever they stand.
constexpr auto kMarkers = std::to_array<Marker>({
    {"lora_embedding_A", "a LoRA on an embedding"},
    {"lora_embedding_B", "a LoRA on an embedding"},
    {"lora_magnitude_vector", "a DoRA magnitude"},
    {"lora_diag", "a KaSA diagonal"},
    {"token_adapter", "retrained embedding rows (trainable tokens)"},
    {"lora_velora_embed", "a VeLoRA buffer"},
    {"lora_monteclora_sampler", "a MonteCLoRA sampler"},
    {"ranknum", "an AdaLoRA rank mask"},
    {"lora_E", "an AdaLoRA diagonal"},
    {"magnitude", "a DoRA magnitude of a torchtune checkpoint"},
});

AdapterKey Refused(std::string_view meaning) {
  AdapterKey key;
  key.meaning = meaning;
  return key;
}

// Reads `….lora_A[.NAME].weight`; `at` is the index of the lora_A or lora_B segment.
AdapterKey ParseFactor(const Segments& segments, size_t at) {
  if (segments.back() == "bias" && segments[at] == "lora_B") return Refused("a bias of lora_B");
  const size_t after = segments.size() - at - 1;
  if (after < 1 || after > 2 || segments.back() != "weight") {
    return Refused("no name of PEFT's (expected ….lora_A.weight or ….lora_B.weight)");
  }
  if (at == 0) return Refused("a factor without a module");
  AdapterKey key;
  key.kind = segments[at] == "lora_A" ? AdapterKeyKind::kLoraA : AdapterKeyKind::kLoraB;
  key.module = Join(std::span(segments).first(at));
  if (after == 2) key.adapter_name = std::string(segments[at + 1]);
  return key;
}

AdapterKey ParseWeight(const Segments& segments) {
  if (segments.back() == "bias") return Refused("a bias in place of the base's");
  const size_t n = segments.size();
  if (segments.back() != "weight" || n < 2) return Refused("no tensor of a PEFT adapter");
  AdapterKey key;
  key.kind = AdapterKeyKind::kReplacement;
  size_t module_end = n - 1;
  if (segments[n - 2] == "base_layer" || segments[n - 2] == "original_module") {
    key.kind = AdapterKeyKind::kBaseCopy;
    module_end = n - 2;
  } else if (n >= 3 && segments[n - 3] == "modules_to_save") {
    key.adapter_name = std::string(segments[n - 2]);
    module_end = n - 3;
  }
  if (module_end == 0) return Refused("a weight without a module");
  key.module = Join(std::span(segments).first(module_end));
  return key;
}

}  // namespace

AdapterKey ParseAdapterKey(std::string_view tensor_name) {
  Segments segments = Split(tensor_name);
  std::erase_if(segments, [](std::string_view segment) {
    return segment == "_orig_mod" || segment == "_fsdp_wrapped_module" ||
           segment == "_checkpoint_wrapped_module";
  });
  if (segments.size() >= 2 && segments[0] == "base_model" && segments[1] == "model") {
    segments.erase(segments.begin(), segments.begin() + 2);
  }
  if (segments.empty() || std::count(segments.begin(), segments.end(), std::string_view()) > 0) {
    return Refused("a name with an empty part");
  }
  if (IsImageLora(segments)) return Refused(kImageLora);
  for (const std::string_view segment : segments) {
    for (const Marker& marker : kMarkers) {
      if (segment == marker.segment) return Refused(marker.meaning);
    }
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] == "lora_a" || segments[i] == "lora_b") {
      return Refused(segments.back() == "weight" ? "a factor of a torchtune checkpoint"
                                                 : "a factor of an MLX adapter");
    }
    if (segments[i] != "lora_A" && segments[i] != "lora_B") continue;
    if (i > 0 && segments[i - 1] == "base_layer") {
      return Refused("a LoRA on a bare parameter (target_parameters)");
    }
    return ParseFactor(segments, i);
  }
  return ParseWeight(segments);
}

}  // namespace lorica::formats
