//===- Handshake.h - showing that one knows the job's secret --------------===//
//
// Ranks on several machines need a handshake: anyone who reaches the port of process 0 could otherwise take the place
// of a rank. Process 0 sends a challenge, some random bytes, to each connection. The other process answers with its own
// random bytes and a proof: HMAC-SHA-256 by the secret over both and over its identity. Process 0 proves its own
// identity in the same way when it accepts the other one. The secret is never sent, and an overheard proof cannot be
// used again.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_HANDSHAKE_H
#define MOERT_NET_HANDSHAKE_H

#include "core/Digest.h"
#include "net/Message.h"

namespace moert::net {

constexpr size_t kNonceBytes = 32;

/// HMAC-SHA-256 (RFC 2104).
Sha256::Digest hmac(std::string_view key, std::string_view text);
/// Makes random bytes that nobody can guess.
Status makeNonce(std::string &nonce);

/// Identity that a process claims.
struct Hello {
  int64_t process = 0;
  int64_t count = 0; ///< number of processes that it expects
  std::string name;  ///< "process 4711 on host 'node1'"
};

/// Random bytes of process 0 (its challenge) and of the other process (in its hello; empty until that arrives).
struct Nonces {
  std::string first, other;
};

Message makeHello(const Hello &hello, const Nonces &nonces, std::string_view secret);
/// Returns false if the message is not a hello, or if its proof is wrong for `nonces` and the secret. Sets
/// `nonces.other` if that is empty.
bool readHello(const Message &message, Nonces &nonces, std::string_view secret, Hello &hello);

} // namespace moert::net

#endif // MOERT_NET_HANDSHAKE_H
