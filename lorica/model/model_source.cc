#include "lorica/model/model_source.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "lorica/formats/json.h"

namespace lorica::model {
namespace {

constexpr int64_t kConfigBytes = 16 << 20;

struct NamePair {
  std::string_view hugging_face;
  std::string_view gguf;
};
constexpr NamePair kOuterNames[] = {
    {"model.embed_tokens.", "token_embd."},
    {"model.norm.", "output_norm."},
    {"lm_head.", "output."},
};
constexpr NamePair kLayerNames[] = {
    {"input_layernorm.", "attn_norm."},    {"post_attention_layernorm.", "ffn_norm."},
    {"self_attn.q_proj.", "attn_q."},      {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},      {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."}, {"self_attn.k_norm.", "attn_k_norm."},
    {"mlp.gate_proj.", "ffn_gate."},       {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
};
constexpr std::string_view kLayerPrefix = "model.layers.";

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

// End-of-sequence ids of generation_config.json join those of config.json.
Status UniteEosIds(const std::string& folder, ModelConfig* config) {
  const std::string path = folder + "/generation_config.json";
  if (!Exists(path)) return OkStatus();
  LORICA_ASSIGN_OR_RETURN(const auto json, formats::ReadJsonFile(path, {.bytes = kConfigBytes}));
  LORICA_ASSIGN_OR_RETURN(const auto reader, formats::JsonObjectReader::Of(json, path));
  const boost::json::value* eos = reader.Find("eos_token_id");
  if (eos == nullptr) return OkStatus();
  boost::json::array ids;
  if (eos->is_array()) {
    ids = eos->as_array();
  } else {
    ids.push_back(*eos);
  }
  for (const boost::json::value& id : ids) {
    if (!id.is_int64() || id.as_int64() < 0 || id.as_int64() >= config->vocab) {
      return reader.Wrong("eos_token_id",
                          "token ids below the vocabulary's " + std::to_string(config->vocab));
    }
    const auto value = static_cast<int32_t>(id.as_int64());
    bool known = false;
    for (const int32_t old : config->eos_token_ids) known |= old == value;
    if (!known) config->eos_token_ids.push_back(value);
  }
  return OkStatus();
}

}  // namespace

TensorRows::TensorRows(const TensorView& view, int32_t pair_heads)
    : view_(view), pair_heads_(pair_heads) {
  LORICA_CHECK(view_.shape.size() == 1 || view_.shape.size() == 2);
}

const std::byte* TensorRows::Locate(int64_t n) const {
  if (pair_heads_ > 0) {
    // Row (half, i) of a head lies at 2 i + half: a pair that rotates together is side by side.
    const int64_t head_dim = this->n() / pair_heads_;
    const int64_t within = n % head_dim;
    const int64_t half = within / (head_dim / 2);
    n += 2 * (within % (head_dim / 2)) + half - within;
  }
  return view_.data + n * ElementsToBytes(view_.dtype, k());
}

const std::byte* TensorRows::StoredRow(int64_t n) const {
  const std::byte* row = Locate(n);
  // Integers are finite; a block's f16 scale, and minimum, may not be.
  const bool has_minimum = view_.dtype == DType::kQ4_1 || view_.dtype == DType::kQ4_K;
  const int halves = has_minimum ? 2 : BlockElements(view_.dtype) > 1 ? 1 : 0;
  // Q6_K ends with its scale.
  const int64_t first = view_.dtype == DType::kQ6_K ? BlockBytes(DType::kQ6_K) - 2 : 0;
  const int64_t bytes = BlockBytes(view_.dtype);
  for (int64_t b = 0; halves > 0 && b < k() / BlockElements(view_.dtype); ++b) {
    for (int i = 0; i < halves; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, row + b * bytes + first + 2 * i, sizeof(bits));
      if ((bits & 0x7c00u) == 0x7c00u) saw_non_finite_.store(true, std::memory_order_relaxed);
    }
  }
  return row;
}

void TensorRows::ReadRow(int64_t n, std::span<float> row) const {
  DequantizeRow(view_.dtype, Locate(n), k(), row.data());
  // The greatest exponent tells of a NaN or an infinity, without a branch in the loop.
  uint32_t greatest = 0;
  for (const float value : row.first(static_cast<size_t>(k()))) {
    greatest = std::max(greatest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  if (greatest >= 0x7f800000u) saw_non_finite_.store(true, std::memory_order_relaxed);
}

Result<std::unique_ptr<ModelSource>> ModelSource::Open(const std::string& path) {
  std::unique_ptr<ModelSource> source(new ModelSource());
  source->path_ = path;
  if (!Exists(path)) {
    return NotFound(path + ": expected a model folder or a GGUF file, found nothing there");
  }
  if (IsFolder(path)) {
    LORICA_RETURN_IF_ERROR(source->OpenFolder());
  } else {
    LORICA_ASSIGN_OR_RETURN(auto file, formats::GgufFile::Open(path, MappedFile::Mode::kMap));
    source->gguf_.emplace(std::move(file));
    LORICA_ASSIGN_OR_RETURN(source->config_, ReadGgufConfig(*source->gguf_));
    source->taken_.insert("rope_freqs.weight");
  }
  const Status served = CheckServed(source->config_);
  if (!served.ok()) return served.WithContext(path);
  return source;
}

Status ModelSource::OpenFolder() {
  const std::string config_path = path_ + "/config.json";
  if (!Exists(config_path)) {
    return NotFound(path_ + ": expected a model folder with config.json, found none");
  }
  LORICA_ASSIGN_OR_RETURN(const MappedFile text,
                          MappedFile::Open(config_path, MappedFile::Mode::kRead, kConfigBytes));
  LORICA_ASSIGN_OR_RETURN(config_, ParseModelConfig(text.text(), config_path));
  LORICA_RETURN_IF_ERROR(UniteEosIds(path_, &config_));
  // Said before the tensors are looked at: their layout is the family's.
  const Status served = CheckServed(config_);
  if (!served.ok()) return served.WithContext(config_path);
  LORICA_ASSIGN_OR_RETURN(auto folder,
                          formats::SafetensorsSet::Open(path_, "model", MappedFile::Mode::kMap));
  folder_.emplace(std::move(folder));
  const TensorView* embedding = folder_->Find("model.embed_tokens.weight");
  // What the weights are, whatever config.json says they are.
  if (embedding != nullptr) config_.checkpoint_dtype = embedding->dtype;
  return OkStatus();
}

std::string ModelSource::StoredName(const std::string& name) const {
  if (!is_gguf()) return name;
  for (const NamePair& pair : kOuterNames) {
    if (name.starts_with(pair.hugging_face)) {
      return std::string(pair.gguf) + name.substr(pair.hugging_face.size());
    }
  }
  if (!name.starts_with(kLayerPrefix)) return name;
  const size_t dot = name.find('.', kLayerPrefix.size());
  if (dot == std::string::npos) return name;
  const std::string layer = name.substr(kLayerPrefix.size(), dot - kLayerPrefix.size());
  const std::string rest = name.substr(dot + 1);
  for (const NamePair& pair : kLayerNames) {
    if (!rest.starts_with(pair.hugging_face)) continue;
    return "blk." + layer + "." + std::string(pair.gguf) + rest.substr(pair.hugging_face.size());
  }
  return name;
}

const TensorView* ModelSource::Find(const std::string& name) const {
  const std::string stored = StoredName(name);
  return is_gguf() ? gguf_->FindTensor(stored) : folder_->Find(stored);
}

int32_t ModelSource::PairHeads(const std::string& name) const {
  // Only files of the llama architecture have rotary pairs side by side.
  if (!is_gguf() || config_.family != Family::kLlama) return 0;
  if (name.find(".q_proj.") != std::string::npos) return config_.heads;
  if (name.find(".k_proj.") != std::string::npos) return config_.kv_heads;
  return 0;
}

Result<std::unique_ptr<TensorRows>> ModelSource::Take(const std::string& name, const Shape& shape) {
  const std::string stored = StoredName(name);
  const TensorView* view = Find(name);
  if (view == nullptr) {
    return NotFound(path_ + ": expected the tensor " + stored + " " + ShapeToString(shape) +
                    ", found none");
  }
  if (view->shape != shape) {
    return InvalidArgument(path_ + ": " + stored + ": expected the shape " + ShapeToString(shape) +
                           ", found " + ShapeToString(view->shape));
  }
  // One value of a vector is read at a time, which a block type does not allow.
  const bool readable =
      IsFloatOrBlock(view->dtype) && (shape.size() == 2 || BlockElements(view->dtype) == 1);
  if (!readable) {
    return Unimplemented(path_ + ": " + stored + ": expected F32, F16, BF16" +
                         (shape.size() == 2 ? ", Q4_0, Q4_1, Q8_0, Q4_K or Q6_K" : "") +
                         ", found " + std::string(DTypeName(view->dtype)));
  }
  taken_.insert(stored);
  return std::make_unique<TensorRows>(*view, PairHeads(name));
}

Status ModelSource::CheckAllTaken() const {
  const auto check = [this](const formats::NamedTensor& tensor) {
    if (taken_.contains(tensor.name) || tensor.name.ends_with("rotary_emb.inv_freq")) {
      return OkStatus();
    }
    return InvalidArgument(path_ + ": expected no tensor beside those of a " +
                           std::string(FamilyName(config_.family)) + " model of " +
                           std::to_string(config_.layers) + " layers, found " + tensor.name + " " +
                           ShapeToString(tensor.view.shape));
  };
  if (is_gguf()) {
    for (const formats::NamedTensor& tensor : gguf_->tensors()) {
      LORICA_RETURN_IF_ERROR(check(tensor));
    }
  } else {
    for (const formats::NamedTensor* tensor : folder_->tensors()) {
      LORICA_RETURN_IF_ERROR(check(*tensor));
    }
  }
  return OkStatus();
}

void ModelSource::Release(const TensorView& view) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(view.data) + page - 1) / page * page;
  const auto end =
      (reinterpret_cast<uintptr_t>(view.data) + static_cast<uintptr_t>(view.bytes())) / page * page;
  // Clean pages of a file: the system reads them again if anyone looks.
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace lorica::model
