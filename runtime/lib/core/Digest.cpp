//===- Digest.cpp - SHA-256 -----------------------------------------------===//

#include "core/Digest.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace moert {

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
static constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void Sha256::compress(const uint8_t *block) {
  uint32_t words[64];
  for (int i = 0; i < 16; ++i)
    words[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
               block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + words[i];
    uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const uint32_t result[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i)
    state[i] += result[i];
}

void Sha256::update(const void *bytes, size_t count) {
  // memcpy must not get a null pointer, even for 0 bytes.
  if (count == 0)
    return;
  const auto *next = static_cast<const uint8_t *>(bytes);
  size_t filled = length % 64;
  length += count;
  if (filled) {
    size_t taken = std::min(count, 64 - filled);
    std::memcpy(pending.data() + filled, next, taken);
    next += taken;
    count -= taken;
    if (filled + taken < 64)
      return;
    compress(pending.data());
  }
  for (; count >= 64; next += 64, count -= 64)
    compress(next);
  if (count)
    std::memcpy(pending.data(), next, count);
}

Sha256::Digest Sha256::finish() {
  uint64_t bits = length * 8;
  // The padding is a one, zeros up to 8 bytes before the end of a block, and the number of bits.
  uint8_t padding[72] = {0x80};
  size_t zeros = (119 - length % 64) % 64;
  for (int i = 0; i < 8; ++i)
    padding[1 + zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(padding, zeros + 9);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256::Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string hexOf(const Sha256::Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Status digestOfFile(const std::string &path, Sha256::Digest &digest) {
  auto failed = [&](const char *what) { return invalid("'", path, "': ", what, ": ", std::strerror(errno)); };
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file)
    return failed("cannot be opened for reading");
  Sha256 hash;
  char bytes[1 << 16];
  while (size_t count = std::fread(bytes, 1, sizeof bytes, file.get()))
    hash.update(bytes, count);
  if (std::ferror(file.get()))
    return failed("cannot be read");
  digest = hash.finish();
  return {};
}

} // namespace moert
