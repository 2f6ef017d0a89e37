#include "lorica/formats/adapter_files.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "lorica/formats/adapter_folder.h"
#include "lorica/formats/adapter_keys.h"
#include "lorica/formats/factor_scan.h"
#include "lorica/formats/peft_scale.h"
#include "lorica/formats/reason_list.h"
#include "lorica/formats/sha256.h"

namespace lorica::formats {
namespace {

constexpr int64_t kConfigBytes = 4 << 20;

bool IsServedType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

bool EndsWithModule(std::string_view path, std::string_view entry) {
  return path == entry || (path.size() > entry.size() && path.ends_with(entry) &&
                           path[path.size() - entry.size() - 1] == '.');
}

Status TensorFault(const NamedTensor& tensor, const std::string& expected,
                   const std::string& found) {
  return InvalidArgument("tensor " + QuoteForMessage(tensor.name) + ": expected " + expected +
                         ", found " + found);
}

}  // namespace

// Sorts the tensors of a file into modules; lives during one Open.
class AdapterReader {
 public:
  explicit AdapterReader(AdapterFiles& files) : files_(files), scale_(files.config_) {}

  void Read() {
    for (const Status& refusal : files_.config_.refusals) reasons_.Add(refusal);
    for (const NamedTensor* tensor : files_.tensors_.tensors()) Sort(*tensor);
    if (adapter_names_.size() > 1) {
      reasons_.Add(InvalidArgument("the tensors: expected one adapter name, found " +
                                   QuoteForMessage(*adapter_names_.begin()) + " and " +
                                   QuoteForMessage(*adapter_names_.rbegin())));
    }
    if (pairs_.empty()) {
      reasons_.Add(
          InvalidArgument("the tensors: expected at least one pair of lora_A and lora_B, "
                          "found none among " +
                          std::to_string(files_.tensors_.tensors().size()) + " tensors"));
    }
    for (const auto& [path, pair] : pairs_) AddModule(path, pair);
    Warn();
    files_.reasons_ = std::move(reasons_).Take();
  }

 private:
  struct Pair {
    const NamedTensor* a = nullptr;
    const NamedTensor* b = nullptr;
  };

  void Sort(const NamedTensor& tensor) {
    AdapterKey key = ParseAdapterKey(tensor.name);
    switch (key.kind) {
      case AdapterKeyKind::kLoraA:
      case AdapterKeyKind::kLoraB: {
        adapter_names_.insert(key.adapter_name);
        Pair& pair = pairs_[key.module];
        const NamedTensor*& place = key.kind == AdapterKeyKind::kLoraA ? pair.a : pair.b;
        if (place != nullptr) {
          reasons_.Add("twice", TensorFault(tensor, "one tensor for this factor",
                                            QuoteForMessage(place->name) + " as well"));
        }
        place = &tensor;
        return;
      }
      case AdapterKeyKind::kBaseCopy:
      case AdapterKeyKind::kReplacement:
        return SortWeight(tensor, std::move(key));
      case AdapterKeyKind::kRefused:
        break;
    }
    const std::string meaning(key.meaning);
    reasons_.Add(meaning, Unimplemented("tensor " + QuoteForMessage(tensor.name) +
                                        ": expected factors of plain LoRA, found " + meaning));
  }

  // PEFT writes the embedding and the head beside the factors when it thinks they changed.
  void SortWeight(const NamedTensor& tensor, AdapterKey key) {
    const bool table =
        EndsWithModule(key.module, "embed_tokens") || EndsWithModule(key.module, "lm_head");
    if (!CheckShape(tensor)) return;
    if (table && tensor.view.shape.size() == 2 && IsServedType(tensor.view.dtype)) {
      files_.base_copies_.push_back({std::move(key.module), tensor.name, tensor.view});
    } else if (key.kind == AdapterKeyKind::kBaseCopy) {
      reasons_.Add("base",
                   Unimplemented("tensor " + QuoteForMessage(tensor.name) +
                                 ": expected an adapter's factors alone, found a weight "
                                 "of the base (a full model saved with its LoRA unmerged)"));
    } else {
      reasons_.Add("weight",
                   Unimplemented("tensor " + QuoteForMessage(tensor.name) +
                                 ": expected factors of plain LoRA, found a weight in "
                                 "place of the base's (modules_to_save, or a full model)"));
    }
  }

  bool CheckShape(const NamedTensor& tensor) {
    const Shape& shape = tensor.view.shape;
    if (std::find(shape.begin(), shape.end(), 0) == shape.end()) return true;
    reasons_.Add("empty", TensorFault(tensor, "no empty dimension",
                                      "shape " + ShapeToString(shape) +
                                          " (ZeRO-3 or FSDP saved an empty shard)"));
    return false;
  }

  // Null when a reason was added.
  std::optional<FactorScan> CheckFactor(const NamedTensor& tensor) {
    if (!CheckShape(tensor)) return std::nullopt;
    if (tensor.view.shape.size() != 2) {
      reasons_.Add("dims", TensorFault(tensor, "two dimensions",
                                       "shape " + ShapeToString(tensor.view.shape)));
      return std::nullopt;
    }
    if (!IsServedType(tensor.view.dtype)) {
      reasons_.Add("dtype", TensorFault(tensor, "F32, F16 or BF16",
                                        std::string(DTypeName(tensor.view.dtype))));
      return std::nullopt;
    }
    const FactorScan scan = ScanFactor(tensor.view);
    if (scan.not_finite) {
      const int64_t columns = tensor.view.shape[1];
      reasons_.Add("finite",
                   TensorFault(tensor, "finite values",
                               "NaN or infinity at index " + std::to_string(*scan.not_finite) +
                                   " (row " + std::to_string(*scan.not_finite / columns) +
                                   ", column " + std::to_string(*scan.not_finite % columns) + ")"));
      return std::nullopt;
    }
    return scan;
  }

  void AddModule(const std::string& path, const Pair& pair) {
    if (pair.a == nullptr || pair.b == nullptr) {
      const NamedTensor& alone = pair.a == nullptr ? *pair.b : *pair.a;
      reasons_.Add("alone",
                   TensorFault(alone, "lora_A and lora_B of the module",
                               "no " + std::string(pair.a == nullptr ? "lora_A" : "lora_B")));
      return;
    }
    const Result<ModuleScale> scale = scale_.Resolve(path);
    if (!scale.ok()) reasons_.Add("scale", scale.status());
    const std::optional<FactorScan> a = CheckFactor(*pair.a);
    const std::optional<FactorScan> b = CheckFactor(*pair.b);
    if (!scale.ok() || !a || !b || !CheckRank(pair, scale->rank)) return;
    if (b->all_zero || a->all_zero) {
      ++zero_modules_;
      if (zero_modules_ == 1) first_zero_ = path;
    }
    files_.modules_.push_back({.path = path,
                               .a_name = pair.a->name,
                               .b_name = pair.b->name,
                               .a = pair.a->view,
                               .b = pair.b->view,
                               .a_narrowest = a->narrowest,
                               .b_narrowest = b->narrowest,
                               .rank = scale->rank,
                               .alpha = scale->alpha,
                               .scale = scale->scale});
  }

  bool CheckRank(const Pair& pair, int64_t rank) {
    const Shape& a = pair.a->view.shape;
    const Shape& b = pair.b->view.shape;
    if (a[0] == rank && b[1] == rank) return true;
    const std::string found =
        "lora_A " + ShapeToString(a) + " and lora_B " + ShapeToString(b) +
        (a[1] == rank && b[0] == rank ? " (transposed, as MLX stores them)" : "");
    reasons_.Add("rank", TensorFault(*pair.a,
                                     "rank " + std::to_string(rank) +
                                         ", as r and rank_pattern of the config say, in both",
                                     found));
    return false;
  }

  void Warn() {
    std::vector<std::string>& warnings = files_.warnings_;
    warnings = files_.config_.warnings;
    for (const std::string& warning : files_.tensors_.warnings()) warnings.push_back(warning);
    for (std::string& warning : scale_.Warnings()) warnings.push_back(std::move(warning));
    for (const std::string& target : files_.config_.target_modules) {
      const bool found = std::any_of(pairs_.begin(), pairs_.end(), [&](const auto& entry) {
        return EndsWithModule(entry.first, target);
      });
      if (found) continue;
      warnings.push_back(files_.config_.name + ": \"target_modules\": " + QuoteForMessage(target) +
                         " has no tensors in the file");
    }
    if (zero_modules_ > 0) {
      warnings.push_back(
          "module " + QuoteForMessage(first_zero_) + ": a factor is all zeros" +
          (zero_modules_ > 1 ? ", and so in " + std::to_string(zero_modules_ - 1) + " other modules"
                             : "") +
          "; it changes nothing");
    }
  }

  AdapterFiles& files_;
  PeftScale scale_;
  ReasonList reasons_;
  std::map<std::string, Pair> pairs_;  // by module path
  std::set<std::string> adapter_names_;
  int64_t zero_modules_ = 0;
  std::string first_zero_;
};

AdapterFiles::AdapterFiles(PeftConfig config, SafetensorsSet tensors)
    : config_(std::move(config)), tensors_(std::move(tensors)) {}

Result<AdapterFiles> AdapterFiles::Open(const std::string& folder, int64_t file_bytes) {
  try {
    return OpenFolder(folder, file_bytes);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(folder + ": expected an adapter that fits in memory, found no room");
  }
}

Result<AdapterFiles> AdapterFiles::OpenFolder(const std::string& folder, int64_t file_bytes) {
  LORICA_RETURN_IF_ERROR(CheckAdapterFolder(folder));
  const std::string config_name = "adapter_config.json";
  LORICA_ASSIGN_OR_RETURN(
      const MappedFile text,
      MappedFile::Open(folder + "/" + config_name, MappedFile::Mode::kRead, kConfigBytes));
  Result<PeftConfig> config = ParsePeftConfig(text.text(), config_name);
  if (!config.ok()) return config.status().WithContext(folder);
  SafetensorsLimits limits = SafetensorsLimits::ForAdapter();
  limits.file_bytes = file_bytes;
  LORICA_ASSIGN_OR_RETURN(
      SafetensorsSet tensors,
      SafetensorsSet::Open(folder, "adapter_model", MappedFile::Mode::kRead, limits));
  AdapterFiles files(*std::move(config), std::move(tensors));
  AdapterReader(files).Read();
  const std::string leaf = std::filesystem::path(folder).filename().string();
  if (leaf == "pissa_init" || leaf == "pissa_backup") {
    files.warnings_.push_back(folder +
                              ": a PiSSA run leaves a folder of this name, whose adapter "
                              "is right on the residual base alone; see pissa_converted");
  }
  return files;
}

std::string AdapterFiles::Digest() const {
  Sha256 sha;
  sha.UpdateSized("lorica adapter 1");
  sha.UpdateU64(modules_.size());
  for (const AdapterModule& module : modules_) {
    sha.UpdateSized(module.path);
    sha.UpdateU64(std::bit_cast<uint64_t>(module.scale));
    for (const TensorView* view : {&module.a, &module.b}) {
      sha.UpdateSized(DTypeName(view->dtype));
      for (const int64_t dim : view->shape) sha.UpdateU64(static_cast<uint64_t>(dim));
      sha.Update({view->data, static_cast<size_t>(view->bytes())});
    }
  }
  return HexDigest(sha.Finish());
}

}  // namespace lorica::formats
