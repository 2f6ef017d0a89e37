#include "lorica/kernels/ascend/tile_packer.h"

#include <cmath>
#include <cstring>
#include <string>

#include "lorica/kernels/ascend/lora_program.h"

namespace lorica::ascend {
namespace {

constexpr int64_t kNoteBytes = 64;

int64_t FactorBytes(int64_t length) { return (length + 15) / 16 * kFractalBytes; }

double ElementOf(const lora::Factor& factor, int64_t index) {
  float value = 0.0f;
  DequantizeRow(factor.dtype, factor.data + ElementsToBytes(factor.dtype, index), 1, &value);
  return double{value};
}

// `value` as f32 such that rounding it once more to 16 bits is as rounding `value` once: toward
// zero, with the last bit set where something was cut off.
float ToOdd(double value) {
  auto narrow = static_cast<float>(value);
  if (double{narrow} == value || !std::isfinite(narrow)) return narrow;
  if (std::fabs(double{narrow}) > std::fabs(value)) narrow = std::nextafter(narrow, 0.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(narrow) | 1u);
}

bool IsPowerOfTwo(double scale) {
  int exponent = 0;
  return std::fabs(std::frexp(scale, &exponent)) == 0.5;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

Status CheckLength(const char* what, int64_t length) {
  if (length > 0 && length % kFractal == 0 && length <= kMaxInner) return OkStatus();
  return OutOfRange(std::string("expected ") + what + " as a multiple of 16 up to " +
                    std::to_string(kMaxInner) + ", as the matrix unit takes it, found " +
                    std::to_string(length));
}

}  // namespace

AscendTilePacker::AscendTilePacker(DType compute, ScalePlace scale_place)
    : compute_(compute), scale_place_(scale_place) {
  LORICA_CHECK(compute == DType::kF16 || compute == DType::kBF16);
}

uint16_t AscendTilePacker::Encode(double value) const {
  const float narrow = ToOdd(value);
  return compute_ == DType::kF16 ? F32ToF16(narrow) : F32ToBf16(narrow);
}

double AscendTilePacker::Decode(uint16_t bits) const {
  return double{compute_ == DType::kF16 ? F16ToF32(bits) : Bf16ToF32(bits)};
}

int64_t AscendTilePacker::TileBytes(const lora::TileShape& shape) const {
  return FactorBytes(shape.k) + FactorBytes(shape.n) + kNoteBytes;
}

void AscendTilePacker::PackTile(const lora::SiteFactors& factors, int32_t rank_begin,
                                std::byte* tile) const {
  const int64_t k_bytes = FactorBytes(factors.shape.k);
  const int64_t n_bytes = FactorBytes(factors.shape.n);
  std::memset(tile, 0, static_cast<size_t>(k_bytes + n_bytes + kNoteBytes));
  auto* a = reinterpret_cast<uint16_t*>(tile);
  auto* b = reinterpret_cast<uint16_t*>(tile + k_bytes);
  TileNote note;
  note.scale = static_cast<float>(InB(factors));
  const auto put = [&](double exact, uint16_t* out) {
    *out = Encode(exact);
    const double kept = Decode(*out);
    if (kept == exact) return;
    ++note.rounded;
    note.worst_error = std::max(note.worst_error, std::fabs((kept - exact) / exact));
  };
  for (int64_t r = 0; r < kFractal; ++r) {
    const int64_t rank = rank_begin + r;
    if (rank >= factors.rank) break;
    for (int64_t k = 0; k < factors.shape.k; ++k) {
      put(ElementOf(factors.a, rank * factors.shape.k + k),
          a + k / kFractal * kFractalElements + r * kFractal + k % kFractal);
    }
    for (int64_t n = 0; n < factors.shape.n; ++n) {
      put(ElementOf(factors.b, n * factors.rank + rank) * InB(factors), b + n * kFractal + r);
    }
  }
  std::memcpy(tile + k_bytes + n_bytes, &note, sizeof note);
}

Status AscendTilePacker::Accepts(const lora::SiteFactors& factors) const {
  LORICA_RETURN_IF_ERROR(CheckLength("K", factors.shape.k));
  LORICA_RETURN_IF_ERROR(CheckLength("N", factors.shape.n));
  if (factors.rank < 1 || factors.rank > static_cast<int32_t>(kMaxRank)) {
    return OutOfRange("expected a rank from 1 to " + std::to_string(kMaxRank) +
                      ", as 16 rows of S fit the accumulator, found " +
                      std::to_string(factors.rank));
  }
  const double smallest = compute_ == DType::kF16 ? 0x1p-14 : 0x1p-126;
  const bool exact = IsPowerOfTwo(InB(factors)) && factors.b.dtype == compute_;
  const auto check = [&](const char* name, double element, double scale) {
    const double value = element * scale;
    if (!std::isfinite(element)) return OkStatus();  // as the file has it
    if (!std::isfinite(Decode(Encode(value)))) {
      return OutOfRange(std::string("expected elements of lora_") + name + " times the scale " +
                        Number(scale) + " within " + std::string(DTypeName(compute_)) + ", found " +
                        Number(value));
    }
    if (exact && scale != 1.0 && std::fabs(element) >= smallest && std::fabs(value) < smallest) {
      return OutOfRange(std::string("expected elements of lora_") + name + " times the scale " +
                        Number(scale) + " of at least " + Number(smallest) + " (the least normal " +
                        std::string(DTypeName(compute_)) + "), found " + Number(value));
    }
    return OkStatus();
  };
  for (int64_t i = 0; i < factors.rank * factors.shape.k; ++i) {
    LORICA_RETURN_IF_ERROR(check("A", ElementOf(factors.a, i), 1.0));
  }
  for (int64_t i = 0; i < factors.rank * factors.shape.n; ++i) {
    LORICA_RETURN_IF_ERROR(check("B", ElementOf(factors.b, i), InB(factors)));
  }
  return OkStatus();
}

const std::byte* AscendTilePacker::FactorB(const std::byte* tile, const lora::SiteShape& shape) {
  return tile + FactorBytes(shape.k);
}

TileNote AscendTilePacker::Note(const std::byte* tile, const lora::SiteShape& shape) {
  TileNote note;
  std::memcpy(&note, tile + FactorBytes(shape.k) + FactorBytes(shape.n), sizeof note);
  return note;
}

}  // namespace lorica::ascend
