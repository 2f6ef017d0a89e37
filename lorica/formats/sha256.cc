#include "lorica/formats/sha256.h"

#include <openssl/evp.h>

#include <algorithm>

#include "lorica/base/check.h"
#include "lorica/base/thread_priority.h"

namespace lorica::formats {
namespace {

constexpr size_t kPiece = 64 << 10;  // some 40 us

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  Context() {
    LORICA_CHECK(evp != nullptr);
    Start();
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void Start() { LORICA_CHECK(EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) == 1); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPiece));
    LORICA_CHECK(EVP_DigestUpdate(context_->evp, piece.data(), piece.size()) == 1);
    bytes = bytes.subspan(piece.size());
    GiveWay();
  }
}

void Sha256::UpdateU64(uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(value & 0xff);
    value >>= 8;
  }
  Update(bytes);
}

void Sha256::UpdateSized(std::string_view text) {
  UpdateU64(text.size());
  Update(std::as_bytes(std::span(text.data(), text.size())));
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size = 0;
  LORICA_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1);
  LORICA_CHECK(size == digest.size());
  context_->Start();
  return digest;
}

std::string HexDigest(const Sha256Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(digest.size() * 2);
  for (const uint8_t byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return HexDigest(sha.Finish());
}

}  // namespace lorica::formats
