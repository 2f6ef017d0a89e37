// Sha256: an incremental SHA-256 (FIPS 180-4) through OpenSSL, and its lower-case hex form. The
// holder owns it; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lorica::formats {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  // Eight bytes, little-endian.
  void UpdateU64(uint64_t value);
  // The length as a u64, then the bytes: a list of such strings cannot be read in two ways.
  void UpdateSized(std::string_view text);

  // Ends the message and starts a new, empty one.
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// 64 lower-case hex digits.
std::string HexDigest(const Sha256Digest& digest);
std::string Sha256Hex(std::string_view bytes);

}  // namespace lorica::formats
