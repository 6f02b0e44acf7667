//===- Digest.h - SHA-256 -------------------------------------------------===//
#ifndef MOERT_CORE_DIGEST_H
#define MOERT_CORE_DIGEST_H

#include "core/View.h"

#include <array>
#include <string_view>

namespace moert {

/// SHA-256 (FIPS 180-4) of bytes that come in pieces.
class Sha256 {
public:
  using Digest = std::array<uint8_t, 32>;

  void update(const void *bytes, size_t count);
  void update(std::string_view bytes) { update(bytes.data(), bytes.size()); }
  /// Returns the digest of all bytes so far. The object takes no more bytes.
  Digest finish();

private:
  void compress(const uint8_t *block);

  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending = {}; ///< bytes that do not fill a block yet
  uint64_t length = 0;                  ///< bytes so far
};

Sha256::Digest sha256(std::string_view bytes);
/// Writes 64 lower-case hexadecimal digits, as sha256sum prints them.
std::string hexOf(const Sha256::Digest &digest);
/// Computes the digest of the whole file `path`. If it cannot be read, the error is MOERT_ERROR_INVALID_ARGUMENT with
/// the system's reason.
Status digestOfFile(const std::string &path, Sha256::Digest &digest);

} // namespace moert

#endif // MOERT_CORE_DIGEST_H
