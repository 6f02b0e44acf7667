//===- Handshake.cpp - showing that one knows the job's secret ------------===//

#include "net/Handshake.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <unistd.h>

namespace moert::net {
namespace {

constexpr size_t kProofBytes = std::tuple_size_v<Sha256::Digest>;

std::string stringOf(const Sha256::Digest &digest) { return {digest.begin(), digest.end()}; }

/// Proof over both nonces, the process and a text. Nonces have a fixed length, so the encoding is unambiguous. The
/// process is included, so a proof sent to process 0 is never valid as a proof of process 0.
std::string proofOf(const Nonces &nonces, int64_t process, std::string_view text, std::string_view secret) {
  std::string claim = "moert " + nonces.first + nonces.other + std::to_string(process) + " ";
  return stringOf(hmac(secret, claim.append(text)));
}

} // namespace

Sha256::Digest hmac(std::string_view key, std::string_view text) {
  constexpr size_t kBlock = 64;
  std::string inner = key.size() > kBlock ? stringOf(sha256(key)) : std::string(key);
  inner.resize(kBlock);
  std::string outer = inner;
  for (size_t i = 0; i < kBlock; ++i) {
    inner[i] = static_cast<char>(inner[i] ^ 0x36);
    outer[i] = static_cast<char>(outer[i] ^ 0x5c);
  }
  return sha256(outer + stringOf(sha256(inner.append(text))));
}

Status makeNonce(std::string &nonce) {
  nonce.assign(kNonceBytes, '\0');
  if (::getentropy(nonce.data(), nonce.size()) == 0)
    return {};
  return Status::error(MOERT_ERROR_INTERNAL, "getentropy: ", std::strerror(errno));
}

// The text is "nonce, proof, count name".
Message makeHello(const Hello &hello, const Nonces &nonces, std::string_view secret) {
  std::string text = std::to_string(hello.count) + " " + hello.name;
  return {Message::Type::Hello, hello.process, nonces.other + proofOf(nonces, hello.process, text, secret) + text};
}

bool readHello(const Message &message, Nonces &nonces, std::string_view secret, Hello &hello) {
  if (message.type != Message::Type::Hello || message.text.size() < kNonceBytes + kProofBytes)
    return false;
  if (nonces.other.empty())
    nonces.other = message.text.substr(0, kNonceBytes);
  // A challenge is used once, so the time of this comparison reveals nothing about the proof for another one.
  std::string text = message.text.substr(kNonceBytes + kProofBytes);
  if (message.text.substr(kNonceBytes, kProofBytes) != proofOf(nonces, message.process, text, secret))
    return false;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, hello.count);
  if (error != std::errc() || rest == end || *rest != ' ')
    return false;
  hello.process = message.process;
  hello.name.assign(rest + 1, end);
  return true;
}

} // namespace moert::net
