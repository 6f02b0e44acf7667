//===- Handshake.cpp - showing that one knows the job's secret ------------===//

#include "net/Handshake.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sys/random.h>

namespace moert::net {
namespace {

constexpr size_t kProofBytes = std::tuple_size_v<Sha256::Digest>;

std::string proofOf(const char *who, const Nonces &nonces, const std::string &claim, std::string_view secret) {
  // The nonces have a fixed length, so that nothing can be read in two ways.
  Sha256::Digest digest = hmac(secret, std::string("moert ") + who + "\n" + nonces.first + nonces.other + claim);
  return {digest.begin(), digest.end()};
}

std::string claimOf(int64_t process, std::string_view text) {
  return std::to_string(process) + " " + std::string(text);
}

} // namespace

Sha256::Digest hmac(std::string_view key, std::string_view text) {
  constexpr size_t block = 64;
  std::string padded(block, '\0');
  if (key.size() > block) {
    Sha256::Digest digest = sha256(key);
    std::copy(digest.begin(), digest.end(), padded.begin());
  } else {
    std::copy(key.begin(), key.end(), padded.begin());
  }
  auto with = [&](char pad, const void *bytes, size_t count) {
    std::string first = padded;
    for (char &byte : first)
      byte = static_cast<char>(byte ^ pad);
    Sha256 hash;
    hash.update(first);
    hash.update(bytes, count);
    return hash.finish();
  };
  Sha256::Digest inner = with(0x36, text.data(), text.size());
  return with(0x5c, inner.data(), inner.size());
}

bool areEqual(std::string_view a, std::string_view b) {
  if (a.size() != b.size())
    return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

Status makeNonce(std::string &nonce) {
  nonce.assign(kNonceBytes, '\0');
  // So few bytes come at once.
  while (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    if (errno != EINTR)
      return Status::error(MOERT_ERROR_INTERNAL, std::string("getrandom: ") + std::strerror(errno));
  return {};
}

// "nonce, proof, count name"
Message makeHello(const Hello &hello, const Nonces &nonces, std::string_view secret) {
  std::string text = std::to_string(hello.count) + " " + hello.name;
  std::string proof = proofOf("hello", nonces, claimOf(hello.process, text), secret);
  return {Message::Type::Hello, hello.process, nonces.other + proof + text};
}

bool readHello(const Message &message, Nonces &nonces, std::string_view secret, Hello &hello) {
  if (message.type != Message::Type::Hello || message.text.size() < kNonceBytes + kProofBytes)
    return false;
  nonces.other = message.text.substr(0, kNonceBytes);
  std::string proof = message.text.substr(kNonceBytes, kProofBytes),
              text = message.text.substr(kNonceBytes + kProofBytes);
  if (!areEqual(proof, proofOf("hello", nonces, claimOf(message.process, text), secret)))
    return false;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, hello.count);
  if (error != std::errc() || rest == end || *rest != ' ')
    return false;
  hello.process = message.process;
  hello.name.assign(rest + 1, end);
  return true;
}

Message makeWelcome(const std::string &name, const Nonces &nonces, std::string_view secret) {
  return {Message::Type::Welcome, 0, proofOf("welcome", nonces, name, secret) + name};
}

bool readWelcome(const Message &message, const Nonces &nonces, std::string_view secret, std::string &name) {
  if (message.type != Message::Type::Welcome || message.text.size() < kProofBytes)
    return false;
  name = message.text.substr(kProofBytes);
  return areEqual(std::string_view(message.text).substr(0, kProofBytes), proofOf("welcome", nonces, name, secret));
}

} // namespace moert::net
